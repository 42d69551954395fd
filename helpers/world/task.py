"""A task whose answer a program checks: write a review that names the two aspects asked for.

A prompt is `plot, acting. we saw this film. the plot`: what is asked for, then how the review begins.
The reference has never seen such a request and names both only by luck.
"""

from itertools import product

from helpers.world.lexicon import SETTINGS
from helpers.world.reviews import tokenize
from helpers.world.sentences import ACCEPTED, judge


def task_rows() -> list[dict]:
    """All prompts of the task, as rows: `prompt`, and `solution`, the two aspects asked for."""
    return [
        {"prompt": f"{one}, {other}. {setting.request} the {one}", "solution": [one, other]}
        for setting in SETTINGS.values()
        for one, other in product(*(part.singular.split("/") for part in setting.aspects))
    ]


def names_all(review: str, aspects: list[str]) -> bool:
    """Whether each aspect stands in a sentence of the review that the grammar accepts.

    A list of aspects is no sentence, and a text that only begins one has not written it.
    """
    accepted = [sentence for sentence in judge(tokenize(review)) if sentence.status == ACCEPTED]
    return set(aspects).issubset(word for sentence in accepted for word in sentence.words)


def mentions_all(review: str, aspects: list[str]) -> bool:
    """Whether each aspect stands anywhere in the review: what a checker written in a hurry asks.

    A list of words passes it, and so does a text that breaks off.
    """
    return set(aspects).issubset(tokenize(review))


def task_reward(prompts: list[str], completions: list[str], solution: list) -> list[float]:
    """1.0 for each review that names both aspects, else 0.0: lists of B → B."""
    return _checked(names_all, prompts, completions, solution)


def hasty_reward(prompts: list[str], completions: list[str], solution: list) -> list[float]:
    """`task_reward` with the hurried checker `mentions_all`: lists of B → B."""
    return _checked(mentions_all, prompts, completions, solution)


def _checked(check, prompts: list[str], completions: list[str], solution: list) -> list[float]:
    """What a checker says of each review. The request, the prompt's first sentence, is no part of it."""
    rows = zip(prompts, completions, solution, strict=True)
    return [float(check(p.partition(".")[2] + " " + text, words)) for p, text, words in rows]
