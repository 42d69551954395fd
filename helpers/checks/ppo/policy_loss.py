"""Exercise of notebook 04: the policy's clipped loss, in pieces: ratio, clip, choice, advantage, mean."""

import torch

from helpers import ppo
from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judging.extra_term import with_a_term
from helpers.checks.judging.judge import checker
from helpers.checks.judging.pieces import Slip, alone, two_at_once
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.sizes import far_out, sizes
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, token_by_token, without_effect
from helpers.checks.ppo.ratio import BATCH, LOGPROBS, SPOILT, UNLIKELY, padding_kept_out
from helpers.checks.whitening.averages import other_reductions, reductions, total
from helpers.whitening import masked_mean

INF, NAN = float("inf"), float("nan")


def quotient(p, old, mask):
    """exp(log π − log π_old), of padding too."""
    return (p - old).exp()


def masked_quotient(p, old, mask):
    """The same, 1 where masked."""
    return torch.where(mask, p - old, 0.0).exp()


def both_ends(r, e):
    """The ratio, clipped to 1 ± ε."""
    return r.clamp(1 - e, 1 + e)


def smaller(plain, clipped, a):
    """The smaller gain."""
    return torch.minimum(plain, clipped)


def policy(
    ratio=quotient, clip=both_ends, choose=smaller, scale=lambda a, mask: a, reduce=masked_mean, sign=-1.0
):  # fmt: skip
    """Policy loss with another piece."""

    def wrong(logprobs, old_logprobs, advantages, mask, cliprange):
        rho, a = ratio(logprobs, old_logprobs, mask), scale(advantages, mask)
        gain = choose(rho * a, clip(rho, cliprange) * a, a)
        return sign * reduce(gain, mask)

    return wrong


def per_response(pool):
    """One ratio for each response: `pool` of its log-ratios."""

    def ratio(p, old, mask):
        return pool(torch.where(mask, p - old, 0.0), mask).exp().expand_as(p)

    return ratio


def centred(a, mask):
    return a - a[mask].mean()


# fmt: off
AS_IS = "Take the advantages as they are: they are whitened already."
SLIPS = [Slip(*entry) for entry in [
    ("max instead of min", "You took the larger gain; take the smaller one, the more pessimistic.",
     {"choose": lambda x, y, a: torch.maximum(x, y)}),
    ("minus sign missing", "The loss is minus the gain: the optimizer minimises it.", {"sign": 1.0}),
    ("clip without min", "You used only the clipped ratio; take the smaller of the two gains.",
     {"choose": lambda x, y, a: y}),
    ("no clip", "You used ρA without the clip; ε = {cliprange} has no effect.",
     {"choose": lambda x, y, a: x}),
    ("gains added", "You added the two gains; take the smaller one.", {"choose": lambda x, y, a: x + y}),
    ("gains averaged", "You averaged the two gains; take the smaller one.",
     {"choose": lambda x, y, a: (x + y) / 2}),
    ("smaller ratio", "You took the smaller ratio (or the gain of the smaller size); take the smaller"
     " product. They differ for a negative advantage.",
     {"choose": lambda x, y, a: torch.where(x.abs() < y.abs(), x, y)}),
    ("larger in size", "You compared the gains without their signs; take the smaller number.",
     {"choose": lambda x, y, a: torch.where(x.abs() > y.abs(), x, y)}),
    ("0 where clipped", "A clipped token still has its clipped gain; you set it to 0.",
     {"choose": lambda x, y, a: torch.where(y < x, 0.0, x)}),
    ("0 outside the band", "A token outside 1 ± ε still has a gain; you set it to 0.",
     {"choose": lambda x, y, a: torch.where(x == y, x, 0.0)}),
    ("clipped to ±ε", "You clipped ρ to ±{cliprange}; clip it to 1 ± {cliprange}.",
     {"clip": lambda r, e: r.clamp(-e, e)}),
    ("clipped above only", "You clipped only at 1 + ε (or only where A > 0, which is the same);"
     " clip at 1 − ε too.",
     {"clip": lambda r, e: r.clamp(max=1 + e)}),
    ("clipped below only", "You clipped only at 1 − ε (or only where A < 0, which is the same);"
     " clip at 1 + ε too.",
     {"clip": lambda r, e: r.clamp(min=1 - e)}),
    ("clipped between 1 − ε and 1", "The upper limit is 1 + ε.", {"clip": lambda r, e: r.clamp(1 - e, 1)}),
    ("clipped between 1 and 1 + ε", "The lower limit is 1 − ε.", {"clip": lambda r, e: r.clamp(1, 1 + e)}),
    ("lower limit 1/(1 + ε)", "The lower limit is 1 − ε, not 1/(1 + ε).",
     {"clip": lambda r, e: r.clamp(1 / (1 + e), 1 + e)}),
    ("clipped to 1 ± 2ε", "You clip twice as far out as ε says.", {"clip": lambda r, e: both_ends(r, 2 * e)}),
    ("clipped to 1 ± ε/2", "You clip half as far out as ε says.", {"clip": lambda r, e: both_ends(r, e / 2)}),
    ("limits exchanged", "The limits are exchanged: 1 − ε is the lower one.",
     {"clip": lambda r, e: r.clamp(1 + e, 1 - e)}),
    ("ε written in", "You wrote 0.2 for ε; use the argument, here {cliprange}.",
     {"clip": lambda r, e: both_ends(r, 0.2)}),
    ("ε written in", "You wrote 0.1 for ε; use the argument, here {cliprange}.",
     {"clip": lambda r, e: both_ends(r, 0.1)}),
    ("log-ratio clipped", "You clipped log ρ to ±ε before the exp; clip ρ to 1 ± ε.",
     {"clip": lambda r, e: r.log().clamp(-e, e).exp()}),
    ("ratio reversed", "You have π_old/π; the ratio is π/π_old.", {"ratio": lambda p, o, m: quotient(o, p,
     m)}),
    ("difference without exp", "log π − log π_old is the ratio's logarithm; take exp.",
     {"ratio": lambda p, o, m: p - o}),
    ("ratio − 1", "You subtracted 1 from the ratio.", {"ratio": lambda p, o, m: torch.expm1(p - o)}),
    ("1 + log-ratio", "1 + log ρ is near ρ only where ρ is near 1; take exp.",
     {"ratio": lambda p, o, m: 1 + p - o}),
    ("ratio always 1", "Your ratio is 1 everywhere: are both log-probs the new ones, or is there no"
     " ratio? Compare with the rollout's.", {"ratio": lambda p, o, m: torch.ones_like(p)}),
    ("a probability for the ratio", "You used π; the ratio is π/π_old: subtract the old log-probs before"
     " the exp.", {"ratio": lambda p, o, m: p.exp()}),
    ("old probability for the ratio", "You used π_old; the ratio is π/π_old.",
     {"ratio": lambda p, o, m: o.exp()}),
    ("product of probabilities", "You added the log-probs; subtract the old ones.",
     {"ratio": lambda p, o, m: (p + o).exp()}),
    ("difference of probabilities", "You subtracted probabilities; the ratio is a quotient.",
     {"ratio": lambda p, o, m: p.exp() - o.exp()}),
    ("quotient of log-probs", "You divided log-probs; the ratio is exp of their difference.",
     {"ratio": lambda p, o, m: p / o}),
    ("log-probs for the ratio", "You used log π for the ratio; it is exp(log π − log π_old).",
     {"ratio": lambda p, o, m: p}),
    ("ratio squared", "Your ratio is squared.", {"ratio": lambda p, o, m: (2 * (p - o)).exp()}),
    ("one ratio per response", "You summed the log-ratios over each response; PPO has one ratio per token.",
     {"ratio": per_response(lambda x, m: x.sum(1, True))}),
    ("one ratio per response", "You averaged the log-ratios of each response; PPO has one ratio per token.",
     {"ratio": per_response(lambda x, m: x.sum(1, True) / m.sum(1, True))}),
    ("ratios multiplied so far", "You cumulated the log-ratios; PPO has one ratio per token.",
     {"ratio": per_response(lambda x, m: x.cumsum(1))}),
    ("absolute advantage", "Keep the sign of the advantage: bad tokens must become less likely.",
     {"scale": lambda a, m: a.abs()}),
    ("negative advantages dropped", "You set negative advantages to 0: a bad token would not be pushed"
     " down.", {"scale": lambda a, m: a.clamp(min=0)}),
    ("advantages whitened again", AS_IS, {"scale": lambda a, m: centred(a, m) / a[m].std()}),
    ("advantages whitened again", AS_IS, {"scale": lambda a, m: centred(a, m) / (a[m].std() + 1e-8)}),
    ("advantages whitened again", AS_IS + " (You also let the padding in.)",
     {"scale": lambda a, m: (a - a.mean()) / (a.std() + 1e-8)}),
    ("advantages centred", AS_IS, {"scale": centred}),
    ("advantages centred", AS_IS + " (You also let the padding in.)", {"scale": lambda a, m: a - a.mean()}),
    ("the sign of the advantage alone", "You kept only the advantage's sign; its size counts too.",
     {"scale": lambda a, m: a.sign()}),
    ("advantages added up", "You cumulated the advantages along the response; take each token's own.",
     {"scale": lambda a, m: a.cumsum(1)}),
    ("one advantage per response", "You averaged the advantages of each response; take each token's own.",
     {"scale": lambda a, m: (torch.where(m, a, 0.0).sum(1, True) / m.sum(1, True)).expand_as(a)}),
    *((name, says, {"reduce": reduce}) for name, says, reduce in reductions(lambda f: f, "a loss")),
    *((name, says, {"reduce": reduce, "ratio": masked_quotient})
      for name, says, reduce in reductions(lambda f: f, "a loss")),
    *((name, says, {"reduce": reduce}) for name, says, reduce in other_reductions(lambda f: f)),
]]
POLICY = Exercise(
    "policy_loss", "logprobs old_logprobs advantages mask cliprange",
    lambda *arguments: ppo.policy_loss(*arguments)[0],
    "−mean min(ρA, clip(ρ, 1 − ε, 1 + ε)·A) over counted tokens"
    " (Schulman et al. 2017, eq. 7; notebook 04)",
    [
        (LOGPROBS[0], LOGPROBS[1], floats([2.0, -1.0, 3.0, 4.0]), LOGPROBS[2], 0.2),
        (BATCH[0], BATCH[1], noise(3, 3, 5), BATCH[2], 0.3),
    ],
    [
        *alone(policy, SLIPS),
        ("advantage clipped", "PPO clips the ratio, not the advantage.",
         lambda p, o, a, m, e: -masked_mean(torch.minimum(
             quotient(p, o, m) * a, quotient(p, o, m) * a.clamp(-e, e)), m)),
        *(("product clipped", "You clipped ρA; clip ρ, then multiply by A.",
           lambda p, o, a, m, e, choose=choose: -masked_mean(choose(
               quotient(p, o, m) * a, (quotient(p, o, m) * a).clamp(1 - e, 1 + e), a), m))
          for choose in (smaller, lambda x, y, a: y)),
        ("log-probs instead of the ratio", "−A·log π is REINFORCE; PPO uses the ratio.",
         lambda p, old, a, mask, e: -masked_mean(p * a, mask)),
        ("smaller of two means", "You took the smaller of two means; take the smaller gain of each token,"
         " then the mean.", lambda p, o, a, m, e: -torch.minimum(
             (quotient(p, o, m) * a)[m].mean(), (both_ends(quotient(p, o, m), e) * a)[m].mean())),
        ("smaller of two sums of a response", "You took the smaller gain of whole responses; take it for"
         " each token.", lambda p, o, a, m, e: -torch.minimum(
             torch.where(m, quotient(p, o, m) * a, 0.0).sum(1),
             torch.where(m, both_ends(quotient(p, o, m), e) * a, 0.0).sum(1)).sum() / m.sum()),
        ("means multiplied", "You multiplied the mean ratio by the mean advantage; multiply each token's.",
         lambda p, o, a, m, e: -torch.minimum(
             quotient(p, o, m)[m].mean() * a[m].mean(),
             both_ends(quotient(p, o, m), e)[m].mean() * a[m].mean())),
        ("divided by Σ |A|", "You divided by the advantages' sizes; divide by the {counted} counted tokens.",
         lambda p, o, a, m, e: policy(reduce=total)(p, o, a, m, e) / a[m].abs().sum()),
    ],
    gradient=("logprobs",),
)
# fmt: on
SPOILT_POLICY = [
    (logprobs, old, floats([1.0, *padding]), mask, 0.2)
    for (logprobs, old, mask), padding in zip(SPOILT, ([3.0, -3.0], [NAN, INF]), strict=True)
]


def one_token(words: str, log_ratio: float, advantage: float) -> tuple:
    """A case of one token, for `case_by_case`; ε = 0.2."""
    mask = prefix_mask(1, 1)
    return words, (floats([log_ratio - 1.0]), floats([-1.0]), floats([advantage]), mask, 0.2)


NO_ADVANTAGE = (
    "tokens with A = 0 left out",
    "Wrong where a token has A = 0: its gain is 0, and it counts in the mean as any other.",
    (floats([-1.0, -2.0]), floats([-1.1, -1.0]), floats([0.0, 1.0]), prefix_mask(2, 2), 0.2),
)
QUOTIENT = (
    "quotient of probabilities",
    "Right for likely tokens, wrong at log-probs of −120, where exp rounds to 0: is the ratio a quotient of"
    " probabilities? Subtract the log-probs first, then take one exp.",
    (*UNLIKELY[:2], floats([1.0, -1.0]), UNLIKELY[2], 0.2),
)
FAR = [
    far_out("advantages are large", (*BATCH[:2], 60 * noise(9, 3, 5), BATCH[2], 0.2)),
    *(far_out(f"the ratio is {words} and A = −1", (
        floats([-1.0, -2.0]), floats([-1.0 - by, -2.0]), floats([-1.0, 0.5]), prefix_mask(2, 2), 0.2))
      for words, by in (("20", 3.0), ("1e13", 30.0))),
    far_out("ε is 0.6", (*BATCH[:2], noise(9, 3, 5), BATCH[2], 0.6)),
]  # fmt: skip


def passed(function):
    """All second looks at a loss that passed."""
    first = padding_kept_out(POLICY, *SPOILT_POLICY)(function)
    rows = sizes((*BATCH[:2], noise(9, 3, 5), BATCH[2], 0.2))
    return first or also_on(POLICY, NO_ADVANTAGE, QUOTIENT, *FAR, *rows)(function)


def gains(p, o, a, m, e):
    return torch.where(m, p - o, 0.0)


check_policy_loss = explained(
    checker(POLICY),
    then=passed,
    cause=one_of(
        POLICY,
        two_at_once(policy, SLIPS),
        other_inputs(),
        with_a_term({
            "the mean of log π": lambda p, o, a, m, e: p[m].mean(),
            "the mean of log ρ (a KL)": lambda p, o, a, m, e: gains(p, o, a, m, e)[m].mean(),
            "the mean of (log ρ)² (a KL)": lambda p, o, a, m, e: gains(p, o, a, m, e)[m].square().mean(),
            "the mean of ρ − 1 − log ρ (a KL)": lambda p, o, a, m, e: (
                torch.expm1(gains(p, o, a, m, e)) - gains(p, o, a, m, e))[m].mean(),
            "the mean of π·log π (an entropy bonus)": lambda p, o, a, m, e: (p.exp() * p)[m].mean(),
        }),
        result_changed,
        without_effect,
        case_by_case(
            one_token("ρ lies within 1 ± ε and A > 0", 0.1, 1.5),
            one_token("ρ lies within 1 ± ε and A < 0", -0.1, -1.5),
            one_token("ρ > 1 + ε and A > 0", 0.7, 1.5),
            one_token("ρ > 1 + ε and A < 0", 0.7, -1.5),
            one_token("ρ < 1 − ε and A > 0", -0.7, 1.5),
            one_token("ρ < 1 − ε and A < 0", -0.7, -1.5),
        ),
        token_by_token("advantages", 0.05),
    ),
)  # fmt: skip
