"""The message of imports about contents that look like they hold a secret."""

from ..access import say
from ..text import count


def say_withheld(number: int) -> None:
    """Report how many contents an import withheld, and what lists them."""
    if not number:
        return
    verb, pronoun = ("looks like it holds", "it") if number == 1 else ("look like they hold", "them")
    say(
        f"{count(number, 'content')} {verb} a secret, so no export contains {pronoun}: "
        f'`locus sql "from withheld_contents"` lists {pronoun}.'
    )
