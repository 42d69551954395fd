"""Simulated labellers who each follow one private rule, for the blind labelling of notebook 05."""

from collections.abc import Callable

from helpers.tools.validate import require_choice
from helpers.world.reviews import tokenize

NEGATIONS = ("not", "never", "nothing", "no")
FIRST_PERSON = ("i", "me", "my", "we", "us", "our")


def count(text: str, words: tuple[str, ...]) -> int:
    """How many tokens of the text are one of these words."""
    return sum(token in words for token in tokenize(text))


RULES: dict[str, Callable[[str], float]] = {  # points of a whole text; more is preferred
    "shorter wins": lambda text: -len(tokenize(text)),
    "longer wins": lambda text: len(tokenize(text)),
    "no negations": lambda text: -count(text, NEGATIONS),
    "first person": lambda text: count(text, FIRST_PERSON),
    "no exclamation marks": lambda text: -text.count("!"),
}


def labeller_with(rule: str) -> Callable[[str, str], bool | None]:
    """A labeller who knows this rule and nothing else: two texts → whether the first wins, None for a tie.

    ValueError: none of RULES.
    """
    require_choice("rule", rule, tuple(RULES))
    points = RULES[rule]

    def prefers_first(first: str, second: str) -> bool | None:
        gap = points(first) - points(second)
        return None if gap == 0 else gap > 0

    return prefers_first
