"""How money is written in a table, and in a status line. Pure; an unknown amount is empty."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from decimal import Decimal


def dollars(cost: "Decimal | float | None") -> str:
    """`$1,234.56`; more digits below ten cents."""
    if cost is None:
        return ""
    return f"${cost:,.2f}" if float(cost) >= 0.1 or not cost else f"${cost:.4f}"


def cents(cost: "Decimal | float") -> str:
    """`$1,234.56`; what is less than a cent is `<$0.01`, as on pages of the viewer."""
    return "<$0.01" if 0 < float(cost) < 0.005 else f"${cost:,.2f}"
