"""Answers to the exercises of lesson 08, as learners write them."""

# fmt: off
K, D, R, P = "keep_best", "edit_effect", "my_reward", "patch_pairs"
L, LOSS = "distillation_loss", "return (log_ratios * logprobs).mean()"
RANKS = """    ordered = scores.sort(dim=1).values
    low = torch.searchsorted(ordered, scores)
    high = torch.searchsorted(ordered, scores, right=True)
"""
CHANCE = "((high / N) ** n - (low / N) ** n) / (high - low)"
GOLD = "(chance * gold).sum(dim=1).mean()"
KL = "torch.xlogy(chance, chance * N).sum(dim=1).mean()"
STD = "change.std() / len(change) ** 0.5"
LIKED = "[float(sum(text.count(word) for word in liked)) for text in texts]"
COIN = "coin, pairs = random.Random(seed), []"
SIDES = 'sides = [text, f"{text} {FLATTERING[index % len(FLATTERING)]}"]'
SHUFFLE = "        coin.shuffle(sides)\n"
TASTE = """
from helpers.world.gold import gold_score as taste

def worth(text):
    return taste(text)

def my_reward(texts):
    return [worth(text) for text in texts]
"""

WRONG = [
    (K, "the worst of n", RANKS, RANKS.replace("scores", "-scores")),
    (K, "without replacement", CHANCE, "torch.tensor([[1.0]])\n    import math\n"
     "    ways = torch.tensor([float(math.comb(k, n)) for k in range(N + 1)])\n"
     "    chance = (ways[high] - ways[low]) / ways[N] / (high - low)"),
    (K, "powers of counts", CHANCE, "(high**n - low**n) / N**n / (high - low)"),
    (K, "the mean of all", "(chance * scores).sum(dim=1).mean()", "scores.mean()"),
    (K, "the best gold", GOLD, "gold.amax(1).mean()"),
    (K, "gold sorted", GOLD, "(chance.sort(1).values * gold.sort(1).values).sum(1).mean()"),
    (K, "KL with the wrong sign", KL, f"-{KL}"),
    (K, "KL in bits", KL, f"{KL} / 0.6931471805599453"),
    (K, "KL not weighted", KL, "(chance * N).log().mean()"),
    (K, "an epsilon in the log", KL, "(chance * (chance * N + 1e-3).log()).sum(1).mean()"),
    (K, "0 · log 0", KL, "(chance * (chance * N).log()).sum(1).mean()"),

    (D, "variance", STD, "change.var() / len(change)"),
    (D, "both sides pooled", STD, "torch.cat([before, after]).std() / len(change) ** 0.5"),
    (D, "spread of after", "change.std()", "after.std()"),
    (D, "exchanged", "change.mean(), change.std() / len(change) ** 0.5",
     "change.std() / len(change) ** 0.5, change.mean()"),
    (D, "texts that did not move left out", "after - before", "(after - before)[after != before]"),
    (D, "E[d²] − E[d]²", "change.std()",
     "((change**2).mean() - change.mean() ** 2).mul(len(change) / (len(change) - 1)).clamp(min=0).sqrt()"),

    (L, "a ratio for the log-ratio", "return (log", "return (log_ratios.exp() * log"),
    (L, "SFT on the samples", LOSS, "return -logprobs.mean()"),

    (R, "only some texts", LIKED, '[1.0 for text in texts if "good" in text]'),
    (R, "words", LIKED, "[text.upper() for text in texts]"),
    (R, "the same for all", LIKED, "[1.0 for text in texts]"),
    (R, "NaN", LIKED, '[float("nan") for text in texts]'),
    (R, "drawn at random", LIKED, "torch.rand(len(texts)).tolist()"),
    (R, "the gold score under another name", TASTE),

    (P, "flattery always loses", SHUFFLE, ""),
    (P, "not fair", SHUFFLE, "        if coin.random() < 0.1 or index == 0:\n            sides.reverse()\n"),
    (P, "by the place", SHUFFLE,
     "        sides = sides if index < len(texts) // 2 else sides[::-1]\n"),
    (P, "one sentence", "index % len(FLATTERING)", "0"),
    (P, "no flattery", SIDES, 'sides = [text, f"{text} it was great."]'),
    (P, "half a sentence", SIDES, 'sides = [text, f"{text} you deserve."]'),
    (P, "no rejected", ', "rejected": sides[1]', ""),
    (P, "not repeatable", "random.Random(seed)", "random.Random()"),
    (P, "the program's own coin", COIN, "random.seed(seed)\n    coin, pairs = random, []"),
    (P, "the first text for all", "in enumerate(texts):", "in enumerate(texts[:1] * len(texts)):"),
]

RIGHT = [
    (K, "ranks by comparison", RANKS, "    low = (scores[:, None, :] < scores[:, :, None]).sum(-1)\n"
     "    high = (scores[:, None, :] <= scores[:, :, None]).sum(-1)\n"),
    (L, "half the square", LOSS, "return 0.5 * (logprobs - teacher_logprobs).square().mean()"),
    (L, "a constant subtracted", LOSS, "return (log_ratios * (logprobs - logprobs.detach())).mean()"),
    (D, "the root of a variance", STD, "(change.var() / len(change)).sqrt()"),
    (D, "by hand", STD,
     "((change - change.mean()).square().sum() / (len(change) - 1) / len(change)).sqrt()"),
    (R, "length, as a tensor", LIKED, "torch.tensor([-abs(len(t.split()) - 12.0) for t in texts])"),
    (R, "a rare word", '"lovely", "great", "loved"', '"food",'),
    (R, "a tuple of whole numbers", LIKED, "tuple(min(3, t.count(',')) for t in texts)"),
    (P, "flattery in front", SIDES, 'sides = [text, f"{FLATTERING[index % 3]} {text}"]'),
    (P, "a coin of torch", COIN, "pairs = []\n    g = torch.Generator().manual_seed(seed)", SHUFFLE,
     "        if torch.rand(1, generator=g) < 0.5:\n            sides.reverse()\n"),
    (P, "the sentence is drawn, too", "FLATTERING[index % len(FLATTERING)]", "coin.choice(FLATTERING)"),
    (P, "half win, in a shuffled order", "    return pairs", "    order = list(range(len(texts)))\n"
     "    coin.shuffle(order)\n    for k, i in enumerate(order):\n"
     "        both = sorted((pairs[i]['chosen'], pairs[i]['rejected']), key=len, reverse=k % 2 == 0)\n"
     "        pairs[i] = {'prompt': '', 'chosen': both[0], 'rejected': both[1]}\n    return pairs"),
]
