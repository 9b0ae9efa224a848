"""What imports say of contents that look like they hold a secret."""

from .access import say
from .text import count


def say_withheld(number: int) -> None:
    """How many contents an import found to be withheld, and what lists them; nothing where there are none."""
    if not number:
        return
    looks, them = ("looks like it holds", "it") if number == 1 else ("look like they hold", "them")
    say(
        f"{count(number, 'content')} {looks} a secret, so no export contains {them}: "
        f'`locus sql "from withheld_contents"` lists {them}.'
    )
