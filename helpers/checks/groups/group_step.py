"""The large exercise of notebook 10: from the scores of a batch to the loss, without a critic.

Its four results are looked at in the order in which they are computed: rewards, advantages, gains, loss.
"""

import torch
from torch import Tensor

from helpers import groups
from helpers.checks.groups import rarer_slips
from helpers.checks.groups.advantages import GRPO, RLOO
from helpers.checks.groups.group_slips import (
    Settings,
    advantages_of,
    along_the_tokens,
    credit,
    gains_by,
    gains_of,
    gains_with,
    in_groups,
    kept,
    loss_of,
    masked_per_token,
    padding_in_gains,
    paid,
    per_token,
    rewards_of,
    score_at_the_end,
    smaller_gain,
    times_mask,
    without_easy,
    without_last,
)
from helpers.checks.groups.wrong_means import WRONG_MEANS, unknown_mean
from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judging.parts import begun_too, parts_checker
from helpers.checks.judging.raised import Expected, explained
from helpers.checks.judging.runner import attempt, locals_of

WHITENED = "whitened over the batch"  # in either method
NOT_SUMMED = "the KL is not summed"
PER_TOKEN = (
    "Your KL is still one number a token, [B, T], and a response has one reward, [B]: sum the KL over the"
    " response's counted tokens."
)
NAME, ARGUMENTS = "group_step", "scores logprobs old_logprobs ref_logprobs mask config"


# --- inputs ---------------------------------------------------------------------------------------

TWO = (
    floats([1.0, -1.5])[0],
    floats([-1.0, -2.0, -0.4, -5.0], [-0.9, -1.5, -1.0, -1.0]),
    floats([-1.5, -1.0, -0.7, -2.0], [-0.5, -1.9, -1.0, -1.0]),
    floats([-1.9, -1.2, -0.5, -4.0], [-0.4, -2.5, -0.6, -2.0]),
    prefix_mask(4, 3, 1),
)
SIX = (
    2 * noise(1, 6),
    *(-noise(seed, 6, 6).abs() for seed in (2, 3, 4)),
    prefix_mask(6, 2, 5, 4, 1, 6, 3),
)
FOUR = (*(-noise(seed, 4, 5).abs() for seed in (5, 6, 7)), prefix_mask(5, 3, 2, 5, 1))
EASY = (floats([1.0, 3.0, 2.0, 2.0])[0], *FOUR)  # with β = 0 the second prompt's rewards are equal
CLOSE = (floats([0.0, 1e-4, 1.0, 3.0])[0], *FOUR)  # and here the first prompt's nearly so: ε counts
# the padding of the last one is −inf: only there, so that two mistakes at once can still be told
INF = (SIX[0], *(torch.where(SIX[4], x, float("-inf")) for x in SIX[1:4]), SIX[4])
# the policy has moved far: ratios up to some tens, with advantages of both signs
MOVED = (SIX[0], SIX[2] + 2 * noise(8, 6, 6), *SIX[2:])

PROBES = [
    (*TWO, Settings("rloo", 2, 0.5, "token", 0.2, 0.4, 8)),
    (*SIX, Settings("rloo", 3, 0.3, "response", 0.1, 0.3, 8)),
    (*SIX, Settings("grpo", 3, 0.3, "fixed", 0.1, 0.3, 8)),
    (*EASY, Settings("grpo", 2, 0.0, "response", 0.2, 0.4, 7)),
    (*CLOSE, Settings("grpo", 2, 0.0, "token", 0.2, 0.4, 7)),
    (*TWO, Settings("rloo", 2, 0.5, "fixed", 0.2, 0.4, 8)),
    (*SIX, Settings("grpo", 3, 0.3, "token", 0.1, 0.3, 8)),
    (*INF, Settings("rloo", 3, 0.3, "token", 0.1, 0.3, 8)),
    (*EASY, Settings("grpo", 2, 0.0, "token", 0.2, 0.4, 7)),
    (*MOVED, Settings("rloo", 3, 0.3, "token", 0.1, 0.3, 8)),
]


def part(look: str, reference, mistakes: list, group: str = "", trained: bool = False) -> Exercise:
    """One of the results, as an exercise of its own on the shared probes."""
    gradient = ("logprobs",) if trained else ()
    return Exercise(NAME, ARGUMENTS, reference, look, PROBES, mistakes, gradient, group)


# --- the four results -----------------------------------------------------------------------------

# fmt: off
REWARDS = part(
    "reward = score − β·Σ(log π_old − log π_ref) over the counted tokens (notebook 10)",
    rewards_of,
    [
        ("the last token left out", "The last counted token of each response is missing in your KL; it is"
         " drawn like the others.", paid(lambda old, ref, m: kept(old - ref, without_last(m)).sum(1))),
        ("the first token left out", "The first token of each response is missing in your KL; it is drawn"
         " like the others.", paid(lambda old, ref, m: kept(old - ref, m)[:, 1:].sum(1))),
        ("padding counted", "Your KL counts the padding too (its finite numbers are left): sum"
         " where the mask is True.",
         paid(lambda old, ref, m: (old - ref).nan_to_num(0, 0, 0).sum(1))),
        ("difference of probabilities", "You subtracted probabilities; the KL is counted with log-probs.",
         paid(lambda old, ref, m: kept(old.exp() - ref.exp(), m).sum(1))),
        *((NOT_SUMMED, PER_TOKEN, wrong) for wrong in (per_token, masked_per_token, score_at_the_end)),
        ("k3 for k1", "That is k3; here it is k1, the sum of the log-ratios.", paid(
            lambda old, ref, m: kept((ref - old).exp() - 1 - (ref - old), m).sum(1))),
        ("falls are not charged", "You clipped negative differences to 0; only their whole sum estimates a"
         " KL.", paid(lambda old, ref, m: kept((old - ref).clamp(min=0), m).sum(1))),
        ("the KL is paid", "Your rewards grow with the KL: it is a price. Subtract β times"
         " Σ(old_logprobs − ref_logprobs).", paid(lambda old, ref, m: -kept(old - ref, m).sum(1))),
        ("β missing", "You subtract the KL itself; multiply it by config.kl_coef first.",
         lambda s, p, old, ref, m, c: s - kept(old - ref, m).sum(1)),
        ("KL missing", "These are the scores; subtract β times the KL of each response.",
         lambda s, *rest: s + 0),
        ("padding counted", "Your KL counts the padding too: sum where the mask is True.",
         paid(lambda old, ref, m: (old - ref).sum(1))),
        ("mean over tokens", "You average the KL over the tokens; the KL of a response is their sum.",
         paid(lambda old, ref, m: kept(old - ref, m).sum(1) / m.sum(1))),
        ("mean over all positions", "You average the KL over all positions; the KL of a response is"
         " the sum over its counted tokens.", paid(lambda old, ref, m: kept(old - ref, m).mean(1))),
        ("KL of the policy in training", "You count the KL with logprobs, which move with each"
         " gradient step. The reward belongs to the rollout: old_logprobs.",
         lambda s, p, old, ref, m, c: rewards_of(s, old, p, ref, m, c)),
        ("KL to the old policy", "Your KL is between the new and the old policy; it is priced from"
         " the reference: ref_logprobs.",
         lambda s, p, old, ref, m, c: rewards_of(s, p, p, old, m, c)),
        ("one KL for all", "You subtract the mean KL of the batch from every score; each response"
         " pays its own.", paid(lambda old, ref, m: kept(old - ref, m).sum(1).mean())),
        ("the size of each difference", "You add up absolute differences. Some are negative, and they"
         " count as such: only their sum estimates a KL.",
         paid(lambda old, ref, m: kept((old - ref).abs(), m).sum(1))),
        ("half the square", "That is k2, Σ ½(log-ratio)²; here it is k1, the sum of the log-ratios.",
         paid(lambda old, ref, m: kept((old - ref).square() / 2, m).sum(1))),
        ("the score on each token", "You add the score once for every token; a response has one.",
         lambda s, p, old, ref, m, c: rewards_of(s * m.sum(1), p, old, ref, m, c)),
        ("divided by β", "You divide the KL by β; multiply it.",
         lambda s, p, old, ref, m, c: s - kept(old - ref, m).sum(1) / c.kl_coef),
        ("0 times NaN", "Right, until padding holds −inf: (−inf) − (−inf) is NaN, and so is 0 times"
         " that or −inf. Use torch.where(mask, x, 0.0).", paid(lambda old, ref, m: ((old - ref) * m).sum(1))),
        *rarer_slips.REWARDS,
    ],
)
ADVANTAGES = part(
    "rloo: r − mean of the other K − 1; grpo: (r − mean)/(std + 1e-4); within a group (notebook 10)",
    advantages_of,
    [
        *(in_groups("rloo", mistake) for mistake in RLOO.mistakes if mistake.name != WHITENED),
        *(in_groups("grpo", mistake) for mistake in GRPO.mistakes if mistake.name != WHITENED),
        ("advantages of the scores", "These are advantages of the scores; the KL belongs in: take"
         " those of the rewards.", lambda s, *rest: credit(s, rest[-1])),
        ("the rewards again", "These are the rewards; compare each with its group.", rewards_of),
        (WHITENED, "You whitened the advantages as well. The loop does that later, if at"
         " all; leave them as they are.", lambda *given: (
             lambda a: (a - a.mean()) / (a.std() + 1e-8))(advantages_of(*given))),
    ],
    group="config.method",
)
GAINS = part(
    "min(ρA, clip(ρ, 1 − ε_low, 1 + ε_high)·A), ρ = π/π_old, for each counted token (notebook 10)",
    gains_of,
    [
        ("gain in the padding not masked", "In the padding the ratio is 1, so the gain there is A."
         " Padding gains nothing: mask the gain once more.", padding_in_gains),
        ("max instead of min", "You took the larger gain; take the smaller one.", gains_with(
            lambda r, a, low, high: torch.maximum(r * a, r.clamp(1 - low, 1 + high) * a))),
        ("clip without min", "You used only the clipped ratio; take the smaller of the two gains.",
         gains_with(lambda r, a, low, high: r.clamp(1 - low, 1 + high) * a)),
        ("no clip", "You used ρA without the clip.", gains_with(lambda r, a, low, high: r * a)),
        ("one limit for both sides", "You clipped at 1 + cliprange; above 1 the limit is"
         " 1 + cliprange_high.",
         gains_with(lambda r, a, low, high: smaller_gain(r, a, low, low))),
        ("higher on both sides", "You clipped at 1 − cliprange_high; below 1 the limit is"
         " 1 − cliprange.", gains_with(lambda r, a, low, high: smaller_gain(r, a, high, high))),
        ("no lower limit", "You clipped above only; below 1 the limit is 1 − cliprange.", gains_with(
            lambda r, a, low, high: torch.minimum(r * a, r.clamp(max=1 + high) * a))),
        ("no upper limit", "You clipped below only; above 1 the limit is 1 + cliprange_high.", gains_with(
            lambda r, a, low, high: torch.minimum(r * a, r.clamp(min=1 - low) * a))),
        ("the log-ratio clipped", "You clipped the log-ratio; clip the ratio itself, after exp.", gains_with(
            lambda r, a, low, high: torch.minimum(r * a, r.log().clamp(-low, high).exp() * a))),
        ("the log-ratio clipped", "You clipped the log-ratio to 1 − ε … 1 + ε; clip the ratio, after exp.",
         gains_with(lambda r, a, low, high: torch.minimum(
             r * a, r.log().clamp(1 - low, 1 + high).exp() * a))),
        ("0.2 written in", "Your limits are 0.8 and 1.28, whatever config.cliprange and cliprange_high say.",
         gains_with(lambda r, a, low, high: smaller_gain(r, a, 0.2, 0.28))),
        ("first order of exp", "You took 1 + log-ratio for the ratio; take exp.", gains_with(
            lambda r, a, low, high: smaller_gain(1 + r.log(), a, low, high))),
        ("the first advantage for all", "Every response gets the first one's advantage; each has its own.",
         gains_with(smaller_gain, lambda *given: advantages_of(*given)[:1].expand(len(given[0])))),
        ("advantages on the last token only", "Only the last counted token gets the advantage; every token of"
         " the response does.", lambda *given: kept(
             gains_of(*given), given[-2] & ~without_last(given[-2]))),
        ("advantages shared out", "You divided the advantage by the response's length; every token has the"
         " whole of it.", gains_with(smaller_gain, lambda *given: advantages_of(*given) / given[-2].sum(1))),
        ("limits exchanged", "You exchanged the limits: 1 − cliprange below, 1 + cliprange_high"
         " above.", gains_with(lambda r, a, low, high: smaller_gain(r, a, high, low))),
        ("limits without 1", "The ratio is near 1: clip it to 1 − cliprange … 1 + cliprange_high.",
         gains_with(lambda r, a, low, high: torch.minimum(r * a, r.clamp(-low, high) * a))),
        ("0.2 written in", "Your limits do not change with config.cliprange and config.cliprange_high.",
         gains_with(lambda r, a, low, high: smaller_gain(r, a, 0.2, 0.2))),
        ("smaller ratio", "You took the smaller ratio, then multiplied; take the smaller product.",
         gains_with(lambda r, a, low, high: torch.minimum(r, r.clamp(1 - low, 1 + high)) * a)),
        ("gain clipped", "You clipped ρA; clip ρ, then multiply by A.", gains_with(
            lambda r, a, low, high: torch.minimum(r * a, (r * a).clamp(1 - low, 1 + high)))),
        *(("gain bounded below", "Where A is negative and the ratio far above 1, your gain stops falling: a"
           " second clip (dual-clip PPO). Here the gain is the smaller of the two, and has no end below.",
           gains_with(lambda r, a, low, high, most=most: torch.where(
               a < 0, torch.maximum(smaller_gain(r, a, low, high), most * a),
               smaller_gain(r, a, low, high)))) for most in (2, 3, 5, 10)),
        ("minus sign too early", "The minus belongs to the loss; a gain is positive where ρA is.",
         lambda *given: -gains_of(*given)),
        ("ratio reversed", "You have π_old/π; the ratio is π/π_old.",
         gains_by(lambda p, old, ref, m: kept(old - p, m))),
        ("ratio to the reference", "You have π/π_ref; the ratio is to the policy that wrote, π_old.",
         gains_by(lambda p, old, ref, m: kept(p - ref, m))),
        ("difference without exp", "You used the log-ratio; take exp of it.",
         gains_with(lambda r, a, low, high: smaller_gain(r.log(), a, low, high))),
        ("the rewards for advantages", "You multiplied by the rewards; multiply by the advantages.",
         gains_with(smaller_gain, rewards_of)),
        ("ratio of whole responses", "You used one ratio for a response (GSPO); here each token has"
         " its own.", gains_by(
             lambda p, old, ref, m: groups.sequence_log_ratio(kept(p, m), kept(old, m), m))),
        ("advantages along the tokens", "The advantages ran along the tokens; each belongs to a row:"
         " advantages.unsqueeze(1).", along_the_tokens),
        ("one gain per response", "You return one number per response; each token has its own gain.",
         lambda *given: gains_of(*given).sum(1)),
        ("0 times NaN", "Right, until padding holds −inf: (−inf) − (−inf) is NaN, and so is 0 times"
         " that or −inf. Use torch.where(mask, x, 0.0).", times_mask),
        *rarer_slips.GAINS,
    ],
    trained=True,
)
LOSS = part(
    "minus the mean gain; response: mean of the rows' means, token: mean over all counted tokens,"
    " fixed: sum / (B · response_length) (notebook 10)",
    loss_of,
    [
        *WRONG_MEANS,
        ("easy prompts left out", "Responses with advantage 0 are left out of your mean. Their gain is 0, and"
         " they count in it, unless a setting says otherwise.", without_easy),
        ("the KL a second time", "You charge the KL again in the loss; the rewards have paid it.",
         lambda s, p, old, ref, m, c: loss_of(s, p, old, ref, m, c)
         + c.kl_coef * kept(p - ref, m).sum() / m.sum()),
        ("the KL a second time", "You charge the KL again in the loss; the rewards have paid it.",
         lambda s, p, old, ref, m, c: loss_of(s, p, old, ref, m, c)
         + c.kl_coef * kept(old - ref, m).sum() / m.sum()),
        ("the KL a second time", "You charge the KL again in the loss; the rewards have paid it.",
         lambda s, p, old, ref, m, c: loss_of(s, p, old, ref, m, c)
         + c.kl_coef * kept(p - ref, m).sum(1).mean()),
        ("the KL a second time", "You charge the KL again in the loss; the rewards have paid it.",
         lambda s, p, old, ref, m, c: loss_of(s, p, old, ref, m, c)
         + c.kl_coef * kept(old - ref, m).sum(1).mean()),
        ("minus sign missing", "The loss is minus the mean gain: the optimizer minimises it.",
         lambda *given: -loss_of(*given)),
    ],
    group="config.loss_aggregation",
    trained=True,
)
# fmt: on

RESULTS = {"rewards": REWARDS, "advantages": ADVANTAGES, "gains": GAINS, "loss": LOSS}


def nothing_summed(function) -> bool:
    """Whether an answer that raises has made no number per response yet: nothing of [B] but the scores."""
    error, scores = attempt(function, PROBES[0], seconds=1.0).error, PROBES[0][0]
    there = locals_of(error, function).values()
    rows = [x for x in there if isinstance(x, Tensor) and x.shape == scores.shape]
    return len(there) > 0 and all(torch.equal(x, scores) for x in rows if x.is_floating_point())


SIZES = "must match the size of tensor"
SIZES_OF_KL = (
    "Two sizes do not fit, and none of your variables is [B] as yet. Is the KL still one number a token,"
    " [B, T]? A response has one reward, [B]: sum the KL over the response's counted tokens, dim=1."
)
KL_PER_TOKEN = tuple(
    Expected(words, NOT_SUMMED, f"The first wrong result: the rewards. {says}",
             when=nothing_summed)
    for words, says in (
        (SIZES, SIZES_OF_KL), ("doesn't match the broadcast shape", SIZES_OF_KL),
        ("rewards: got shape (2, 4)", PER_TOKEN),
    )
)  # fmt: skip
NO_COLUMN = Expected(
    SIZES, "advantages not a column",
    "Two sizes do not fit. The usual cause: advantages is [B], the ratio [B, T]. Make it a column,"
    " advantages.unsqueeze(1), so that each row has its own advantage.",
)  # fmt: skip

check_group_step = begun_too(
    RESULTS,
    explained(parts_checker(RESULTS), (*KL_PER_TOKEN, NO_COLUMN), cause=unknown_mean(PROBES)),
)
