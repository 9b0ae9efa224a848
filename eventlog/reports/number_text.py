"""How money is written in a table, and in a status line. Pure; an unknown amount is empty."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from decimal import Decimal


def dollars(cost: "Decimal | float | None") -> str:
    """`$1,234.56`; more digits below ten cents."""
    if cost is None:
        return ""
    return f"${cost:,.2f}" if float(cost) >= 0.1 or not cost else f"${cost:.4f}"
