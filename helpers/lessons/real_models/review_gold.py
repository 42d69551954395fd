"""Openings of reviews to be continued, and who judges the texts: gold, and a second lexicon.

Gold is VADER's compound score (Hutto and Gilbert 2014: 7,500 words rated by ten people each, with rules
for negation and emphasis), from −1 to 1, less 1 for a broken text; it was written down before any run.
AFINN (Nielsen 2011), a list that others made, is a second judge, of which nothing is learned.
"""

import re
from collections.abc import Callable
from functools import cache
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor

from helpers.models import SENTENCE_END
from helpers.tools.files import FileProblem

FRAMES = (
    "In my opinion, the {} is",
    "My review of the {}: It",
    "We tried the {} last week, and it was",
    "I went back to the {} because it",
)
TRAINED = "film soup hotel book phone concert jacket taxi museum lamp tea park".split()
HELD_OUT = "musical pizza cabin poem laptop album coat train gallery chair coffee lake".split()
BROKEN = 1.0  # what a broken text costs
# no plain sentence has these
ODD = re.compile(r"[^A-Za-zÀ-ÿ0-9 .,;:!?'\"()$%&/‘’“”–—-]|  |!!|[A-Z]{4}")
COMMON = frozenset(Path(__file__).with_name("common.txt").read_text("utf-8").split())


def openings(held_out: bool = False) -> list[str]:
    """48 prompts to train on, or 48 of other things: the frames of a thing in a row."""
    return [frame.format(x) for x in (HELD_OUT if held_out else TRAINED) for frame in FRAMES]


def is_broken(text: str) -> bool:
    """Whether a text is no plain, finished prose, whatever it praises.

    It is unfinished; or has signs that a sentence lacks (a new line, "!!", capitals); or says a word twice
    in a row, or one that is not common three times; or strings five such words together.
    """
    plain = re.sub(r"n?['’]\w+", "", text.lower())  # "it's" is "it", "didn't" is "did"
    words = re.findall(r"[^\W\d_]+", plain)
    rare = [word for word in words if word not in COMMON]
    repeats = re.search(r"\b(\w+) \1\b", plain) or any(rare.count(word) > 2 for word in rare)
    runs = [len(list(some)) for common, some in groupby(words, COMMON.__contains__) if not common]
    unfinished = SENTENCE_END.search(text) is None
    return bool(unfinished or ODD.search(text) or repeats or max(runs, default=0) > 4)


@cache
def lexicons() -> tuple[Callable[[str], float], Callable[[str], float]]:
    """Text → VADER's compound score, −1 to 1; text → the sum of AFINN's ratings, −5 to 5 a word.

    FileProblem: a package is not installed.
    """
    try:
        from afinn import Afinn
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
    except ImportError as problem:
        wants = "wants the packages vaderSentiment and afinn (`make test-pretrained`)"
        raise FileProblem(f"No lexicon ({problem}): {wants}.") from None
    analyzer = SentimentIntensityAnalyzer()
    return lambda text: analyzer.polarity_scores(text)["compound"], Afinn().score


def each(judge: Callable[[str], float]) -> Callable[[list[str]], Tensor]:
    """A judge of one text as a judge of many: list of N → [N]."""
    return lambda texts: torch.tensor([float(judge(text)) for text in texts])


gold = each(lambda text: lexicons()[0](text) - BROKEN * is_broken(text))  # −2 to 1
afinn = each(lambda text: lexicons()[1](text))
JUDGES = {"gold": gold, "afinn": afinn, "broken": each(is_broken)}
