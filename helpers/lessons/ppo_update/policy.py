"""Exercises of lesson 04 on the policy: its gradient, ratio, clipped loss, clip fraction and entropy."""

import torch

from helpers.kit.exercise import floats, noise, prefix_mask, sizes
from helpers.kit.judge import exercise

GENTLE = torch.tensor([0.3, -0.2, 0.5])


def same_gradient(function, logits, words, advantages) -> dict:
    """The loss; that of the text where the gradient is right, which is what is asked for."""
    logits = logits.clone().requires_grad_()
    loss = function(logits, words, advantages)
    asked = -(logits.log_softmax(-1)[words] * advantages).mean()
    if isinstance(loss, torch.Tensor) and loss.requires_grad and loss.dim() == 0:
        slopes = [torch.autograd.grad(x, logits, retain_graph=True)[0] for x in (loss, asked)]
        loss = asked if torch.allclose(*slopes, 1e-4, 1e-5) else loss
    return {"result": loss}


check_reinforce_loss = exercise(
    """\
def reinforce_loss(logits, words, advantages):
    return -(logits.log_softmax(-1)[words] * advantages).mean()
""",
    "−mean of A·log π(w) over the words drawn (Williams 1992)",
    [
        (torch.tensor([1.0, 0.0, -1.0]), torch.tensor([0, 2]), torch.tensor([2.0, 1.0])),
        (noise(10, 5), torch.tensor([4, 0, 0, 2, 1, 4]), noise(11, 6)),
        (2 * noise(12, 4) + 1, torch.tensor([3]), torch.tensor([-1.5])),
    ],
    """\
weighed by π as well: You multiplied by π(w): words drawn come with that weight already.
- [words] *
+ [words] * logits.softmax(-1)[words] *
means multiplied: You multiplied two means; multiply each word's log π by its own A first.
- [words] * advantages).mean()
+ [words].mean() * advantages.mean())
softmax over the words drawn: Your softmax is over the words drawn; it is over the whole vocabulary.
- .log_softmax(-1)[words]
+ [words].log_softmax(-1)
advantages indexed by the words: There is one advantage for each word drawn, in their order: index the
 log-probs by the words, and the advantages not at all.
- advantages).mean
+ advantages[words % len(advantages)]).mean
""",
    observe=same_gradient,
    gradient=("logits",),
    further=[
        (
            "a logit is 150: The softmax of the other words rounds to 0, and exp(150) overflows:"
            " log_softmax gives the log-prob itself.",
            (torch.tensor([0.0, 150.0, -60.0]), torch.arange(3), noise(8, 3)),
        ),
        ("advantages are large", (GENTLE, torch.arange(3), 60 * noise(9, 3))),
    ],
)

SHORT = (floats([-1.0, -2.0, -0.4, -5.0]), floats([-1.5, -1.0, -0.5, -2.0]), prefix_mask(4, 3))
BATCH = (-noise(1, 3, 5).abs(), -noise(2, 3, 5).abs(), prefix_mask(5, 2, 5, 4))
UNLIKELY = (floats([-120.0, -110.0]), floats([-119.5, -111.0]), prefix_mask(2, 2))
UNDERFLOW = (
    "log-probs are −120: exp rounds to 0 there: subtract the log-probs first, then take one exp."
)
# what padding may hold: a difference whose exp overflows, −∞ − (−∞), NaN
OVERFLOW = (floats([-1.0, 900.0, -1.0]), floats([-1.2, -900.0, -1000.0]), prefix_mask(3, 1))
HOLES = (floats([-1.0, -torch.inf, torch.nan]), floats([-1.2, -torch.inf, -1.0]), prefix_mask(3, 1))
SPOILT = "padding holds {}: 0 · ∞ and 0 · NaN are NaN: choose with torch.where(mask, x, 0.0), before exp."
LARGE = (floats([-1.0, -1.0, -1.0]), floats([-31.0, -81.0, -1.5]), prefix_mask(3, 3))

check_ratio = exercise(
    """\
def ratio(logprobs, old_logprobs, mask):
    log_ratio = torch.where(mask, logprobs - old_logprobs, 0.0)
    return log_ratio.exp()
""",
    "ρ = exp(logprobs − old_logprobs), 1 where masked (Schulman et al. 2017, eq. 6)",
    [SHORT, BATCH],
    """\
difference without exp: That is the logarithm of the ratio; take exp of it.
- log_ratio.exp()
+ torch.where(mask, log_ratio, 1.0)
1 + log-ratio: 1 + log ρ is near ρ only where ρ is near 1; take exp of the difference.
- log_ratio.exp()
+ 1 + log_ratio
clipped already: You clipped the ratio; that is done later, in the loss.
- log_ratio.exp()
+ log_ratio.exp().clamp(0.8, 1.2)
""",
    gradient=("logprobs",),
    further=[
        (SPOILT.format("huge numbers"), OVERFLOW),
        (SPOILT.format("NaN"), HOLES),
        (UNDERFLOW, UNLIKELY),
        ("the ratio is 1e13 or 1e35: Is there a clamp? It comes later, in the loss.", LARGE),
        *sizes(BATCH),
    ],
)


def with_advantages(given: tuple, *advantages: float) -> tuple:
    """Inputs of `policy_loss` from those of `ratio`, which have one row."""
    return (*given[:2], floats(advantages), given[2], 0.2)


def one_token(ratio: float, advantage: float, quiet: int = 1) -> tuple:
    """Inputs of `policy_loss`: a token of this ratio and advantage, beside `quiet` others."""
    new = floats([-1.0, *[-2.0] * quiet])
    old, mask = new - floats([ratio, *[1.0] * quiet]).log(), prefix_mask(1 + quiet, 1 + quiet)
    return new, old, floats([advantage, *[0.5] * quiet]), mask, 0.2


ADVANTAGES = noise(9, 3, 5)

check_policy_loss = exercise(
    """\
def policy_loss(logprobs, old_logprobs, advantages, mask, cliprange):
    rho = torch.where(mask, logprobs - old_logprobs, 0.0).exp()
    gain = rho * advantages
    clipped_gain = rho.clamp(1 - cliprange, 1 + cliprange) * advantages
    return -torch.minimum(gain, clipped_gain)[mask].mean()
""",
    "−mean min(ρA, clip(ρ, 1 − ε, 1 + ε)·A) over counted tokens (Schulman et al. 2017, eq. 7)",
    [
        one_token(2.0, -1.0, quiet=0),  # clipped, and the min takes the other
        with_advantages(SHORT, 2.0, -1.0, 3.0, 4.0),
        (*BATCH[:2], noise(3, 3, 5), BATCH[2], 0.3),
    ],
    """\
max instead of min: You took the larger gain; take the smaller one, the more pessimistic.
- minimum
+ maximum
clip without min: You used only the clipped ratio; take the smaller of the two gains.
- torch.minimum(gain, clipped_gain)
+ clipped_gain
clipped above only: You clipped only at 1 + ε (or only where A > 0, which is the same); clip at 1 − ε too.
- clamp(1 - cliprange, 1 + cliprange)
+ clamp(max=1 + cliprange)
smaller ratio: You took the smaller ratio; take the smaller product. They differ for a negative advantage.
- torch.minimum(gain, clipped_gain)
+ (torch.minimum(rho, rho.clamp(1 - cliprange, 1 + cliprange)) * advantages)
one ratio per response: You used one ratio for a whole response; PPO has one ratio per token.
- 0.0).exp()
+ 0.0).sum(1, True).exp()
""",
    gradient=("logprobs",),
    further=[
        (SPOILT.format("NaN"), with_advantages(HOLES, 1.0, torch.nan, torch.inf)),
        (
            "a token has A = 0: Its gain is 0, and it counts in the mean as any other.",
            one_token(0.9, 0.0),
        ),
        (UNDERFLOW, with_advantages(UNLIKELY, 1.0, -1.0)),
        (
            "the ratio is 20 and A = −1: That gain has no limit: is there a clamp?",
            one_token(20.0, -1.0),
        ),
        *sizes((*BATCH[:2], ADVANTAGES, BATCH[2], 0.2)),
    ],
)

CASES = (  # one token of each kind, in words of their ratios and advantages
    floats([1.5, 0.5, 1.4, 0.6, 1.1, 1.7, 1.6, 0.5, 0.5]),
    floats([1.0, 2.0, 3.0, -1.0, 2.0, 0.0, 0.0, 0.0, 1.0]),
    prefix_mask(9, 8),
    0.2,
)
RATIOS = ((0.5 * noise(8, 4, 7)).exp(), noise(9, 4, 7), prefix_mask(7, 7, 3, 6, 2), 0.2)


def row(ratios: list, advantages: list, cliprange: float = 0.2) -> tuple:
    """Inputs of `clip_fraction`: one row that counts throughout."""
    return floats(ratios), floats(advantages), prefix_mask(len(ratios), len(ratios)), cliprange


check_clip_fraction = exercise(
    """\
def clip_fraction(ratio, advantages, mask, cliprange):
    too_likely = (ratio > 1 + cliprange) & (advantages > 0)
    too_unlikely = (ratio < 1 - cliprange) & (advantages < 0)
    return (too_likely | too_unlikely)[mask].float().mean()
""",
    "a token is clipped where ρ > 1 + ε and A > 0, or ρ < 1 − ε and A < 0; the share of counted tokens",
    [
        CASES,
        RATIOS,
        (
            (1.3 * noise(13, 9, 30)).exp(),
            noise(14, 9, 30),
            prefix_mask(30, 30, 7, 21, 2, 13, 28, 1, 17, 9),
            0.15,
        ),
    ],
    """\
sign of the advantage ignored: You counted every ρ outside 1 ± ε. Where the advantage pulls ρ back inside,
 the min keeps the gradient.
- (too_likely | too_unlikely)
+ ((ratio - 1).abs() > cliprange)
sign of the advantage swapped: You exchanged the two cases: A > 0 is clipped above 1 + ε, A < 0 below 1 − ε.
- (advantages > 0)
-     too_unlikely = (ratio < 1 - cliprange) & (advantages < 0)
+ (advantages < 0)
+     too_unlikely = (ratio < 1 - cliprange) & (advantages > 0)
above only: You left out A < 0, which is clipped below 1 − ε.
- (too_likely | too_unlikely)
+ too_likely
always 0: No token is above 1 + ε and below 1 − ε at once: join the two cases by |.
- too_likely | too_unlikely
+ too_likely & too_unlikely
log-ratio compared with ε: You compared log ρ with ±ε; compare ρ with 1 ± ε.
- (ratio > 1 + cliprange) & (advantages > 0)
-     too_unlikely = (ratio < 1 - cliprange)
+ (ratio.log() > cliprange) & (advantages > 0)
+     too_unlikely = (ratio.log() < -cliprange)
""",
    further=[
        (
            "a ratio is exactly 1 ± ε: It still has its gradient: ρ > 1 + ε and ρ < 1 − ε, strictly.",
            row([1.25, 0.75, 1.5, 0.5], [1.0, -1.0, 1.0, 1.0], 0.25),  # exact in a float32
        ),
        (
            "advantages are 1e-4: One of 1e-4 has a gradient too; its sign alone counts.",
            row([1.5, 0.5, 1.0], [1e-4, -1e-4, 1.0]),
        ),
        *sizes(RATIOS),
    ],
)

check_entropy = exercise(
    """\
def entropy(logits, mask):
    logprobs = logits.log_softmax(dim=-1)
    per_token = -(logprobs.exp() * logprobs).sum(dim=-1)
    return per_token[mask].mean()
""",
    "H = −Σ p·log p over the vocabulary, in nats, then the mean over counted tokens",
    [
        (floats([[0.0, 1.0, 3.0], [2.0, -1.0, 0.5], [0.0, 0.0, 0.0]]), prefix_mask(3, 2)),
        (noise(7, 3, 5, 4), BATCH[2]),
    ],
    """\
of the likeliest token: You took −log p of the most likely token; average it over all.
- -(logprobs.exp() * logprobs).sum(dim=-1)
+ -logprobs.amax(dim=-1)
plain mean of −log p: You averaged −log p over the vocabulary, each word alike; weigh each by its p, and sum.
- (logprobs.exp() * logprobs).sum(dim=-1)
+ logprobs.mean(dim=-1)
logits for log-probs: p is right, but log p is log_softmax(logits), not the logits.
- logprobs.exp() * logprobs
+ logprobs.exp() * logits
share of the maximum: You divided by log V; do not normalise.
- .sum(dim=-1)
+ .sum(dim=-1) / torch.tensor(logits.shape[-1]).log()
""",
    gradient=("logits",),
    further=[
        (
            "a logit is 120: The p of the other words rounds to 0, and 0·log 0 is NaN; exp(120)"
            " overflows: use log_softmax.",
            (floats([[120.0, 0.0, 1.0], [0.0, 2.0, -1.0]]), prefix_mask(2, 2)),
        ),
        (
            "there are 3000 words, each unlikely: Is a number added inside the logarithm?",
            (noise(15, 1, 2, 3000), prefix_mask(2, 2)),
        ),
        *sizes((noise(7, 3, 5, 4), BATCH[2])),
    ],
)
