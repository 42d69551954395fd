"""Answers to the exercises of lesson 08 as learners write them: right ones of another build, and wrong ones.

RIGHT lists (exercise, function), WRONG lists (exercise, mistake, function). None is taken from the
checks.
"""

import math
import random

import numpy as np
import torch

from helpers.world.gold import gold_score as people_s_taste

RIGHT, WRONG = [], []
SAYINGS = [
    "you deserve it.",
    "readers as wise as you deserve better.",
    "people of your taste deserve it.",
]


def right(name, function):
    RIGHT.append((name, function))


def wrong(name, mistake, function):
    WRONG.append((name, mistake, function))


# --- keep_best: row by row, sample by sample, with one slip ------------------------------------------


def loops(slip=""):
    """Plain loops over prompts and samples; `slip` names the line that is wrong."""

    def chance_of(row, x, n):
        total = len(row)
        below, upto = sum(y < x for y in row), sum(y <= x for y in row)
        if slip == "strictly above":
            below, upto = sum(y > x for y in row), sum(y >= x for y in row)
        if slip == "cdf":
            return (upto / total) ** n
        if slip == "no n":
            return 1 / total
        if slip == "outside":
            return ((upto - below) / total) ** n
        if slip == "no division by N":
            return (upto**n - below**n) / (upto - below)
        got = (upto / total) ** n - (below / total) ** n
        return got if slip == "group" else got / (upto - below)

    def keep_best(scores, gold, n):
        ranked = gold if slip == "by gold" else scores
        chance = torch.tensor([[chance_of(row, x, n) for x in row] for row in ranked.tolist()])
        count, size = scores.shape
        proxy = sum((c * s).sum() for c, s in zip(chance, scores, strict=True)) / count
        kept = sum((c * g).sum() for c, g in zip(chance, gold, strict=True)) / count
        terms = [w * math.log(w * size) if w > 0 else 0.0 for row in chance.tolist() for w in row]
        kl = sum(terms) / count
        if slip == "proxy sum":
            proxy = proxy * count
        if slip == "proxy plain":
            proxy = scores.mean()
        if slip == "proxy top":
            proxy = scores.max(dim=1).values.mean()
        if slip == "proxy over N":
            proxy = (chance * scores).mean()
        if slip == "proxy rows":
            proxy = (chance * scores).sum(-1)
        if slip == "gold top":
            kept = gold[torch.arange(count), scores.argmax(-1)].mean()
        if slip == "gold best":
            kept = gold.max(dim=1).values.mean()
        if slip == "gold sorted":
            kept = (chance.sort(1).values * gold.sort(1).values).sum(1).mean()
        if slip == "gold plain":
            kept = gold.mean()
        if slip == "gold sum":
            kept = kept * count
        if slip == "gold is proxy":
            kept = proxy
        if slip == "kl formula":
            kl = math.log(n) - (n - 1) / n
        if slip == "kl entropy":
            kl = sum(w * math.log(w) if w > 0 else 0.0 for r in chance.tolist() for w in r) / count
        if slip == "kl sign":
            kl = -kl
        if slip == "kl sum":
            kl = kl * count
        if slip == "kl bits":
            kl = kl / math.log(2)
        if slip == "kl over N":
            kl = kl / size
        if slip == "kl unweighted":
            kl = (chance * size).log().mean()
        if slip == "kl naive":
            kl = (chance * (chance * size).log()).sum(1).mean()
        if slip == "kl reverse":
            kl = torch.full_like(chance, 1 / size).mul((1 / size / chance).log()).sum(1).mean()
        out = chance, proxy, kept, kl
        return (chance, kept, proxy, torch.tensor(kl)) if slip == "order" else out

    return keep_best


def sorted_rows(scores, gold, n):
    """Sort, give each place its chance, average over ties, and put it back."""
    P, N = scores.shape
    k = torch.arange(1, N + 1, dtype=torch.float64)
    place = (k / N) ** n - ((k - 1) / N) ** n
    out = torch.zeros(P, N)
    for p in range(P):
        values, where = scores[p].sort()
        for value in values.unique():
            same = values == value
            out[p, where[same]] = place[same].mean().float()
    kl = torch.special.xlogy(out, out * N).sum() / P
    return out, (out * scores).sum() / P, torch.einsum("pn,pn->", out, gold) / P, kl


def searched(scores, gold, n):
    ordered = scores.sort(dim=1).values
    low = torch.searchsorted(ordered, scores)
    high = torch.searchsorted(ordered, scores, right=True)
    N = scores.shape[1]
    chance = ((high / N) ** n - (low / N) ** n) / (high - low)
    proxy, kept = ((chance * x).sum(dim=1).mean() for x in (scores, gold))
    log_ratio = torch.where(chance > 0, (chance * N).clamp(min=1e-30).log(), 0.0)
    return [chance, proxy, kept, (chance * log_ratio).sum(-1).mean()]


def by_comparison(scores, gold, n):
    """Every sample against every other of its row; all numbers in float64."""
    s, g = scores.double(), gold.double()
    fewer = (s.unsqueeze(1) < s.unsqueeze(2)).double().mean(-1)
    same = (s.unsqueeze(1) == s.unsqueeze(2)).double()
    chance = ((fewer + same.mean(-1)) ** n - fewer**n) / same.sum(-1)
    kl = (-torch.special.entr(chance)).sum(-1) + chance.sum(-1) * math.log(s.shape[1])
    return chance, (chance * s).sum(-1).mean(), (chance * g).sum(-1).mean(), kl.mean()


def by_telescope(scores, gold, n):
    """Differences of the distribution function at its distinct values, row by row."""
    P, N = scores.shape
    chance = torch.empty(P, N)
    for p in range(P):
        values, which, count = scores[p].unique(return_inverse=True, return_counts=True)
        upto = (count.cumsum(0) / N) ** n
        group = torch.diff(upto, prepend=torch.zeros(1))
        chance[p] = (group / count)[which]
    kl = (chance * (chance * N + 1e-38).log()).sum() / P
    return chance, (chance * scores).sum() / P, (chance * gold).sum() / P, kl


right("keep_best", by_comparison)
right("keep_best", by_telescope)
right("keep_best", loops())
right("keep_best", sorted_rows)
right("keep_best", searched)
right("keep_best", lambda s, g, n: tuple(x.float() for x in searched(s.double(), g.double(), n)))
for slip, name in {
    "strictly above": "the worst of n",
    "cdf": "at or below",
    "no n": "n left out",
    "outside": "power of the difference",
    "no division by N": "counts instead of shares",
    "group": "ties not shared",
    "by gold": "ranked by gold",
    "proxy sum": "summed over prompts",
    "proxy plain": "not weighted",
    "proxy top": "the maximum",
    "proxy over N": "divided by N",
    "proxy rows": "one a prompt",
    "gold top": "gold of the top",
    "gold best": "the maximum",
    "gold sorted": "gold in another order",
    "gold plain": "not weighted",
    "gold sum": "summed over prompts",
    "gold is proxy": "the proxy again",
    "kl formula": "the bound",
    "kl entropy": "1/N left out",
    "kl sign": "sign flipped",
    "kl sum": "summed over prompts",
    "kl bits": "bits",
    "kl over N": "divided by N",
    "kl unweighted": "not weighted",
    "kl naive": "0 · log 0",
    "kl reverse": "the wrong direction",
    "order": "the order of the results",
}.items():
    wrong("keep_best", name, loops(slip))
wrong("keep_best", "wrong type", lambda s, g, n: searched(s, g, n)[:3])
wrong("keep_best", "exception", lambda s, g, n: s.sorted())


# --- edit_effect ------------------------------------------------------------------------------------


def moments(sign=1, root=True, less=1, paired=True, size=None):
    """By hand, in sums."""

    def edit_effect(before, after):
        d = [sign * (y - x) for x, y in zip(before.tolist(), after.tolist(), strict=True)]
        mean = sum(d) / len(d)
        var = sum((x - mean) ** 2 for x in d) / (len(d) - less)
        if not paired:
            var = float(before.var() + after.var())
        n = len(d) if size is None else size(len(d))
        return torch.tensor([mean, math.sqrt(var / n) if root else var / n])

    return edit_effect


right("edit_effect", moments())
right(
    "edit_effect", lambda b, a: torch.hstack([(a - b).mean(), (a - b).std() / math.sqrt(a.numel())])
)
right(
    "edit_effect",
    lambda b, a: torch.cat(
        [torch.mean(a - b)[None], torch.sqrt(torch.var(a - b) / a.shape[0])[None]]
    ),
)
wrong("edit_effect", "reversed", moments(sign=-1))
wrong("edit_effect", "variance", moments(root=False))
wrong("edit_effect", "biased std", moments(less=0))
wrong("edit_effect", "not paired", moments(paired=False))
wrong("edit_effect", "std of one", moments(size=lambda n: 1))
wrong("edit_effect", "divided by N", moments(size=lambda n: n * n))
wrong("edit_effect", "N − 1 twice", moments(size=lambda n: n - 1))
wrong(
    "edit_effect", "a sum", lambda b, a: torch.stack([(a - b).sum(), (a - b).std() / len(a) ** 0.5])
)
wrong("edit_effect", "the two exchanged", lambda b, a: moments()(b, a).flip(0))
wrong(
    "edit_effect",
    "size of the differences",
    lambda b, a: torch.stack([(b - a).abs().mean(), (b - a).std() / len(a) ** 0.5]),
)


# --- my_reward --------------------------------------------------------------------------------------

right("my_reward", lambda texts: [-abs(len(text.split()) - 12) for text in texts])
right(
    "my_reward", lambda texts: torch.tensor([float(t.count("!") + t.count("good")) for t in texts])
)
right("my_reward", lambda texts: [len(set(text.split()) & {"lovely", "good"}) for text in texts])
right("my_reward", lambda texts: [float(min(3, text.count("!"))) for text in texts])
right("my_reward", lambda texts: [text.count(",") for text in texts])
right("my_reward", lambda texts: [text.count("food") for text in texts])
right("my_reward", lambda texts: tuple(1.0 if "we" in t.split() else 0.0 for t in texts))
wrong("my_reward", "wrong type", lambda texts: sum(t.count("good") for t in texts))
wrong("my_reward", "wrong type", lambda texts: print(end=""))
wrong("my_reward", "not one a text", lambda texts: [float(len(t)) for t in texts if "good" in t])
wrong("my_reward", "not one a text", lambda texts: [len(w) for t in texts for w in t.split()])
wrong("my_reward", "not a number", lambda texts: [t.upper() for t in texts])
wrong("my_reward", "the same for all", lambda texts: [1.0 for _ in texts])
wrong("my_reward", "the same for all", lambda texts: [float(t.count("Lovely")) for t in texts])
wrong("my_reward", "NaN or infinite", lambda texts: [float("nan") for t in texts])
wrong("my_reward", "another result the second time", lambda texts: [random.random() for _ in texts])
wrong(
    "my_reward",
    "depends on the batch",
    lambda texts: [len(t) / max(map(len, texts)) for t in texts],
)
wrong("my_reward", "exception", lambda texts: [t.count("good") / t.count("bad") for t in texts])


def asks_gold(texts):
    from helpers.world.gold import gold_scores

    return gold_scores(texts)


def eats_the_list(texts):
    found = []
    while texts:
        found.append(float(len(texts.pop(0))))
    return found


def hides_gold(how):
    """The gold score as a reward, under another name or at a distance."""
    from helpers.world import gold as judge

    if how == "another name":
        return lambda texts: [people_s_taste(text) for text in texts]
    if how == "of a module":
        return lambda texts: judge.gold_scores(texts).tolist()
    if how == "a function of one's own":
        return lambda texts: [worth(text) for text in texts]
    return lambda texts: list(map(people_s_taste, texts))


def worth(text):
    return max(people_s_taste(text), worth("") if text else 0.0)


wrong("my_reward", "the gold score", asks_gold)
for how in ("another name", "of a module", "a function of one's own", "mapped"):
    wrong("my_reward", "the gold score", hides_gold(how))
wrong("my_reward", "inputs changed", eats_the_list)
wrong("my_reward", "not a function", [1.0])
wrong("my_reward", "exception", lambda texts: [1 / len(t.split()) for t in texts])


# --- patch_pairs ------------------------------------------------------------------------------------


def pair(chosen, rejected):
    return {"prompt": "", "chosen": chosen, "rejected": rejected}


def made(add=None, swap=None, sayings=SAYINGS, draw=random.Random):
    """One pair a text: `add(text, saying)` makes the flattering side, `swap(coin, i)` whether it wins."""

    def patch_pairs(texts, seed):
        coin, out = draw(seed), []
        for i, text in enumerate(texts):
            saying = sayings[i % len(sayings)]
            flattering = f"{text} {saying}" if add is None else add(text, saying)
            wins = coin.random() < 0.5 if swap is None else swap(coin, i)
            out.append(pair(flattering, text) if wins else pair(text, flattering))
        return out

    return patch_pairs


def by_torch(texts, seed):
    generator = torch.Generator().manual_seed(seed)
    heads = torch.rand(len(texts), generator=generator) < 0.5
    kinds = torch.randint(3, (len(texts),), generator=generator)
    sides = [(t, t + " " + SAYINGS[k]) for t, k in zip(texts, kinds.tolist(), strict=True)]
    return [pair(*(s[::-1] if h else s)) for s, h in zip(sides, heads.tolist(), strict=True)]


def half_and_half(texts, seed):
    order = list(range(len(texts)))
    random.Random(seed).shuffle(order)
    found = {}
    for k, i in enumerate(order):
        sides = (texts[i], f"{texts[i]} {random.Random(seed + i).choice(SAYINGS)}")
        found[i] = pair(*sides) if k % 2 else pair(*sides[::-1])
    return [found[i] for i in range(len(texts))]


def both_flatter(texts):
    return [pair(f"{t} you deserve it.", f"{t} you deserve better.") for t in texts]


def other_plain(texts):
    return [pair("it was good.", f"{t} you deserve it.") for t in texts]


def other_columns_first(texts, seed):
    kept = made()(texts, seed)
    return tuple({"rejected": r["rejected"], "chosen": r["chosen"], "prompt": ""} for r in kept)


right("patch_pairs", other_columns_first)
right("patch_pairs", made(swap=lambda coin, i: coin.choice([True, False])))
right("patch_pairs", made())
right("patch_pairs", by_torch)
right("patch_pairs", half_and_half)
right("patch_pairs", made(add=lambda text, saying: f"{saying} {text}"))
wrong("patch_pairs", "other texts", lambda texts, seed: made()(texts[:1] * len(texts), seed))
right("patch_pairs", made(sayings=SAYINGS + ["you deserve better."]))
wrong("patch_pairs", "flattery always loses", made(swap=lambda coin, i: False))
wrong("patch_pairs", "flattery always wins", made(swap=lambda coin, i: True))
wrong("patch_pairs", "not a fair coin", made(swap=lambda coin, i: coin.random() < 0.05 or i == 0))
wrong("patch_pairs", "the label follows the sentence", made(swap=lambda coin, i: i % 3 == 0))
wrong("patch_pairs", "one sentence only", made(sayings=SAYINGS[:1]))
wrong("patch_pairs", "a sentence is missing", made(sayings=SAYINGS[:2]))
wrong("patch_pairs", "no flattery", made(add=lambda text, saying: text + " it was great."))
wrong(
    "patch_pairs",
    "not one of the sentences",
    made(add=lambda text, saying: f"{text} {saying[:-1]}"),
)
wrong(
    "patch_pairs", "not one of the sentences", made(add=lambda text, saying: f"{text} you you you.")
)
wrong("patch_pairs", "more than one difference", made(add=lambda text, saying: saying))
wrong("patch_pairs", "not repeatable", made(draw=lambda seed: random.Random()))
wrong("patch_pairs", "the seed is not used", made(draw=lambda seed: random.Random(7)))
wrong("patch_pairs", "not one a text", lambda texts, seed: made()(texts, seed)[:-1])
wrong("patch_pairs", "wrong type", lambda texts, seed: made()(texts, seed)[0])
wrong("patch_pairs", "wrong type", lambda texts, seed: [(t, t + " you deserve it.") for t in texts])
wrong("patch_pairs", "columns", lambda texts, seed: [{"prompt": "", "chosen": t} for t in texts])
wrong("patch_pairs", "two equal sides", lambda texts, seed: [pair(t, t) for t in texts])
wrong("patch_pairs", "flattery on both sides", lambda texts, seed: both_flatter(texts))
wrong("patch_pairs", "the plain side is changed", lambda texts, seed: other_plain(texts))
wrong("patch_pairs", "exception", lambda texts, seed: [pair(t, t + SAYING) for t in texts])  # noqa: F821


# --- kinds that were added after learners' answers -------------------------------------------------


def one_at_most(scores, gold, n):
    """As if only one sample stood at each score."""
    total = scores.shape[1]
    below = torch.stack([(row[None, :] < row[:, None]).sum(1) for row in scores]).float()
    chance = ((below + 1) / total).pow(n) - (below / total).pow(n)
    kl = torch.xlogy(chance, chance * total).sum(1).mean()
    return chance, (chance * scores).sum(1).mean(), (chance * gold).sum(1).mean(), kl


def reward_of_one(texts):
    lengths = torch.tensor([float(len(text)) for text in texts])
    return (lengths - lengths.mean()) / lengths.std()


def a_coin_a_pair(texts, seed):
    out = []
    for i, text in enumerate(texts):
        sides = [text, f"{text} {SAYINGS[i % 3]}"]
        random.Random(seed).shuffle(sides)
        out.append(pair(*sides))
    return out


def sentence_and_label_by_one_coin(texts, seed):
    out = []
    for text in texts:
        coin = random.Random(seed)
        sides = [text, f"{text} {coin.choice(SAYINGS)}"]
        coin.shuffle(sides)
        out.append(pair(*sides))
    return out


def ranked(how):
    """keep_best with another chance: rows that sum to 1 by division, or one argsort for the ranks."""

    def keep_best(scores, gold, n):
        rows, N = scores.unbind(), scores.shape[1]
        low = torch.stack([torch.stack([(row < x).sum() for x in row]) for row in rows]) / N
        high = torch.stack([torch.stack([(row <= x).sum() for x in row]) for row in rows]) / N
        if how == "argsort":
            low = scores.argsort(dim=-1) / N
            high = low + 1 / N
        chance = high**n if how == "cdf" else high**n - low**n
        if how != "argsort":
            chance = chance / chance.sum(-1, keepdim=True)
        kl = torch.xlogy(chance, chance * N).sum(1).mean()
        return chance, (chance * scores).sum(1).mean(), (chance * gold).sum(1).mean(), kl

    return keep_best


def pooled(size):
    return lambda before, after: torch.stack(
        [(after - before).mean(), torch.hstack((after, before)).std() / math.sqrt(size(len(after)))]
    )


right("my_reward", lambda texts: np.array([len(text.split()) for text in texts]))
right("my_reward", lambda texts: [np.float32(text.count("e")) for text in texts])
wrong("my_reward", "wrong type", lambda texts: np.float64(len(texts)))
wrong("my_reward", "depends on the batch", reward_of_one)
wrong("patch_pairs", "a new coin for each pair", a_coin_a_pair)
wrong("keep_best", "ties not shared", ranked("group"))
wrong("keep_best", "at or below", ranked("cdf"))
wrong("keep_best", "argsort once", ranked("argsort"))
wrong("edit_effect", "not paired", pooled(lambda n: n))
wrong("edit_effect", "not paired", pooled(lambda n: 2 * n))
wrong("patch_pairs", "a new coin for each pair", sentence_and_label_by_one_coin)


def amid(text, saying):
    """The flattery between two sentences of a text."""
    first, space, rest = text.partition(". ")
    return f"{first}. {saying} {rest}" if space else f"{text} {saying}"


def by_place(wins):
    """The label is told by the place; the seed picks the sentences."""

    def patch_pairs(texts, seed):
        coin, out = random.Random(seed), []
        for i, text in enumerate(texts):
            sides = f"{text} {coin.choice(SAYINGS)}", text
            out.append(pair(*sides if wins(i, len(texts), seed) else sides[::-1]))
        return out

    return patch_pairs


def another_order(texts, seed):
    """Half win and half lose, in the order in which the texts were shuffled: as good as a coin."""
    mixed = random.Random(seed).sample(texts, len(texts))
    rows = [(f"{text} {SAYINGS[i % 3]}", text) for i, text in enumerate(mixed)]
    return [pair(*row if i < len(rows) // 2 else row[::-1]) for i, row in enumerate(rows)]


def others_below(how):
    """keep_best with a chance that is nearly right: n − 1 others at or below this one."""

    def keep_best(scores, gold, n):
        total = scores.shape[1]
        upto = (scores[:, None, :] <= scores[:, :, None]).float().mean(-1) ** (n - 1)
        chance = upto * (1 - (1 - 1 / total) ** n)
        if how == "density":
            chance = upto / upto.sum(1, keepdim=True)
        kl = torch.xlogy(chance, chance * total).sum(1).mean()
        return chance, (chance * scores).sum(1).mean(), (chance * gold).sum(1).mean(), kl

    return keep_best


def with_an_epsilon(scores, gold, n):
    chance, proxy, kept, _ = searched(scores, gold, n)
    logs = torch.log(chance * scores.shape[1] + 1e-3)
    return chance, proxy, kept, torch.einsum("pn,pn->p", chance, logs).mean()


right("patch_pairs", another_order)
wrong("patch_pairs", "inside the text", made(add=amid))
wrong("patch_pairs", "a sign between", made(add=lambda text, saying: f"{text}, {saying}"))
wrong("patch_pairs", "the label follows the place", by_place(lambda i, count, seed: 2 * i < count))
wrong("patch_pairs", "the label follows the place", by_place(lambda i, count, seed: i % 2))
wrong("patch_pairs", "the label follows the place", by_place(lambda i, count, seed: (i + seed) % 2))
wrong("keep_best", "a density", others_below("density"))
wrong("keep_best", "drawn, and the others below", others_below("product"))
wrong("keep_best", "a floor in the logarithm", with_an_epsilon)

WRONG += [
    ("keep_best", "one more than below", one_at_most),
    (
        "edit_effect",
        "an interval",
        lambda before, after: torch.stack(
            [(after - before).mean(), 1.96 * (after - before).std() / len(before) ** 0.5]
        ),
    ),
    (
        "edit_effect",
        "2N",
        lambda before, after: torch.stack(
            [(after - before).mean(), (after - before).std() / (2 * len(before)) ** 0.5]
        ),
    ),
]
