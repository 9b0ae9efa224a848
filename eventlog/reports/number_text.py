"""How figures are written on a page, and in a status line. Pure; an unknown figure is empty."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from decimal import Decimal


def whole(n: "int | None") -> str:
    """`1,234`."""
    return "" if n is None else f"{n:,}"


def compact(n: "float | None") -> str:
    """`950`, `12.3 k`, `4.5 M`: powers of a thousand, three digits."""
    if n is None:
        return ""
    if n < 1000:
        return f"{n:g}"
    for unit in ("k", "M", "G", "T"):
        n /= 1000
        if n < 999.5 or unit == "T":
            break
    return f"{n:.0f} {unit}" if n >= 100 or n == int(n) else f"{n:.1f} {unit}"


def dollars(cost: "Decimal | float | None") -> str:
    """`$1,234.56`; more digits below ten cents."""
    if cost is None:
        return ""
    return f"${cost:,.2f}" if cost >= 0.1 or not cost else f"${cost:.4f}"


def spell_duration(value: "int | None", us: int = 1) -> str:
    """`320 ms`, `12 s`, `4 min`, `3.2 h`, `2.5 d`, of a value in units of so many µs."""
    if value is None:
        return ""
    seconds = value * us / 1e6
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for unit, size, until in (("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds < until:
            return f"{seconds / size:.1f} {unit}" if unit == "h" else f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.1f} d"
