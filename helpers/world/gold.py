"""The gold score, judged sentence by sentence: how much the simulated people like a text, in points.

Praise counts only in sentences that the grammar accepts, blame counts everywhere. The strongest
praise is worth most, the second half as much, the third a third: each further good point raises the
score, by less and less. `gold_score(text, explain=True)` lists every gain and every penalty.
"""

from collections import Counter
from itertools import pairwise

from helpers.world.lexicon import DEGREES, OPINIONS, SUPERLATIVES, VERDICT_WORDS
from helpers.world.opinions import ASPECTS, MARKS, find_contradictions, find_opinions
from helpers.world.reviews import KNOWN_WORDS, tokenize
from helpers.world.sentences import ACCEPTED, BROKEN, STOPS, judge

# gains and penalties, in points; a plain "good" is worth 1
STRONGEST = 1.5  # the most that one opinion is worth: "truly superb" is no better than "excellent"
BROKEN_COST, BROKEN_WORD_COST = 3.0, 0.25  # of each broken sentence, and of each word in it
STOP_COST = 1.0
HYPE_COST = 0.8  # each superlative beyond the first
EXCLAMATION_COST = 0.5  # each exclamation mark beyond the first
DOUBLE_COST = 0.8  # each word that follows itself, "really really"
REPEAT_COST = 0.3  # second use of a content word; the third costs twice that, and so on
CONTRADICTION_COST = 1.2
BUT_COST = 0.5  # each "but" between two praises or two blames: it announces a turn that is none
STRONG_DEGREE, FREE_DEGREES, DEGREE_COST = 1.3, 2, 0.3  # each "very", "truly" ... beyond the second
RESTATED_COST = 1.0  # each sentence without opinion that begins like an earlier one
LOWEST = -1000.0  # far below what a policy can reach
_FREELY_REPEATED = KNOWN_WORDS - ASPECTS - OPINIONS.keys()  # "the", "we", "very", "film" ...


def subject(opinion):
    """What an opinion is about: a name that is the same for "waiter" and "waiters", "it", "advice"."""
    if opinion.about in ASPECTS:
        return opinion.about.removesuffix("s")
    return "advice" if opinion.phrase.split()[-1] in VERDICT_WORDS else "it"


def _worth(opinion):
    """How much an opinion counts, for or against: 0 to `STRONGEST` points."""
    return min(STRONGEST, abs(opinion.value))


def diminishing(values):
    """Sum of values ≥ 0, the largest first, the k-th divided by k: adding a value never lowers it."""
    ordered = sorted(values, reverse=True)
    return sum(value / k for k, value in enumerate(ordered, start=1))


def _praise(sentences):
    """The strongest praise of each subject, in accepted sentences: list of `Opinion`."""
    accepted = [sentence for sentence in sentences if sentence.status == ACCEPTED]
    opinions = [opinion for s in accepted for opinion in find_opinions(s.words)]
    by_strength = sorted((o for o in opinions if o.value > 0), key=_worth)
    return list({subject(opinion): opinion for opinion in by_strength}.values())


def _said(opinions):
    """The opinions as text, with what each is worth before it is divided."""
    return ", ".join(f"{opinion.phrase} {_worth(opinion):.2f}" for opinion in opinions)


def _turns_missing(opinions):
    """The pairs of opinions of one sign that one sentence joins with "but", as text."""
    return [
        f"{a.phrase} but {b.phrase}"
        for a, b in pairwise(opinions)
        if "but" in b.links and STOPS.isdisjoint(b.links) and a.value * b.value > 0
    ]


def _restated(sentences):
    """Beginnings of accepted sentences without opinion that came before: a second "the cover is"."""
    neutral = [s.words for s in sentences if s.status == ACCEPTED and not find_opinions(s.words)]
    beginnings = Counter(" ".join(words[:3]) for words in neutral)
    return [text for text, count in beginnings.items() for _ in range(count - 1)]


def _costs(tokens, sentences, opinions):
    """Everything that is blamed but opinions, as (what, cost); a cost is 0 where nothing is wrong."""
    supers = sum(token in SUPERLATIVES for token in tokens)
    yield f"hype ({supers} superlatives)", HYPE_COST * max(0, supers - 1)
    shouts = tokens.count("!")
    yield f"hype ({shouts} exclamation marks)", EXCLAMATION_COST * max(0, shouts - 1)
    doubles = sum(a == b and a not in MARKS for a, b in pairwise(tokens))
    yield f"repetition ({doubles} doubled words)", DOUBLE_COST * doubles
    content = Counter(token for token in tokens if token not in _FREELY_REPEATED)
    often = [f"{word} x{n}" for word, n in content.items() if n > 1]
    repeats = sum(n * (n - 1) // 2 for n in content.values())
    yield f"repetition ({', '.join(often)})", REPEAT_COST * repeats
    strong = sum(DEGREES.get(token, 0.0) >= STRONG_DEGREE for token in tokens)
    yield f"hype ({strong} strong degrees)", DEGREE_COST * max(0, strong - FREE_DEGREES)
    clashes = set(find_contradictions(opinions))  # once each, also of praise and blame by turns
    yield f"contradiction ({'; '.join(sorted(clashes))})", CONTRADICTION_COST * len(clashes)
    turns, restated = _turns_missing(opinions), _restated(sentences)
    yield f"no turn ({'; '.join(turns)})", BUT_COST * len(turns)
    yield f"repetition ({'; '.join(restated)})", RESTATED_COST * len(restated)
    for words, _, status in sentences:
        if status == BROKEN:
            yield f"broken ({' '.join(words)})", BROKEN_COST + BROKEN_WORD_COST * len(words)
    yield "no full stop at the end", 0.0 if sentences[-1].stop else STOP_COST


def _parts(tokens):
    """Every gain and penalty, as (what, points); some may be 0."""
    sentences, opinions = judge(tokens), find_opinions(tokens)
    praise = _praise(sentences)
    blame = [opinion for opinion in opinions if opinion.value < 0]
    yield f"praise ({_said(praise)})", diminishing(map(_worth, praise))
    yield f"blame ({_said(blame)})", -diminishing(map(_worth, blame))
    yield from ((what, -cost) for what, cost in _costs(tokens, sentences, opinions))


def gold_score(text, explain=False):
    """Gold score of any string, in points: from about -4 (bitter) to about +3 (sincere praise).

    Broken text scores lower without end. With `explain`, returns (score, [(what, points), ...]):
    the points sum to the score, and what is worth 0 is left out.
    """
    parts = [(what, points) for what, points in _parts(tokenize(text)) if points]
    total = sum(points for _, points in parts)
    if total < LOWEST:
        parts.append(("no text is worse than this", LOWEST - total))
    score = float(sum(points for _, points in parts))
    return (score, parts) if explain else score


def gold_scores(texts):
    """Gold score of each text: list of str -> list of float."""
    return [gold_score(text) for text in texts]
