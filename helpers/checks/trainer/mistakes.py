"""Well-known wrong versions of steps 3 to 5 of a trainer (notebook 06), each with what to say about it.

A check runs them on its recorded inputs, and compares what they give with what the learner's function
gave. Signatures are those of `trainer_steps`.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.gae.credit_mistakes import ADVANTAGE_MISTAKES
from helpers.checks.judging.exercise import kept
from helpers.checks.trainer.course_steps import score_responses, total_rewards
from helpers.one_page import position_ids

# --- 3: scores ------------------------------------------------------------------------------------


SCORE_MISTAKES = kept([
    ("the sign of the score", "The scores have the wrong sign.",
     lambda *given: -score_responses(*given)),
    ("whitened scores", "You normalised the scores over the batch; the reward model's scores are"
     " normalised already.",
     lambda *given: (lambda s: (s - s.mean()) / s.std())(score_responses(*given))),
    ("centred scores", "You subtracted the batch's mean score; the critic is the baseline here.",
     lambda *given: (lambda s: s - s.mean())(score_responses(*given))),
    ("a probability", "You passed the scores through a sigmoid; rewards are the scores themselves.",
     lambda *given: score_responses(*given).sigmoid()),
])  # fmt: skip


# --- 4: log-probs ---------------------------------------------------------------------------------


def all_logprobs(policy, ids, mask, temperature, positions="right", attend=True) -> Tensor:
    """Log-softmax after each token: [B, L, V]; with other positions, or with padding attended to."""
    m = mask.bool()
    made = {"right": position_ids(m), "columns": None, "from one": m.cumsum(1)}
    made["minus one"] = (m.cumsum(1) - 1).clamp(min=0)
    made["first row"] = position_ids(m[:1]).expand(m.shape)
    more = {} if made[positions] is None else {"position_ids": made[positions]}
    if attend:
        more["attention_mask"] = m
    return (policy(ids, **more).logits / temperature).log_softmax(-1)


def picked(x: Tensor, tokens: Tensor) -> Tensor:
    """x at the tokens: [B, T, V], [B, T] → [B, T]."""
    return x.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def logprobs_with(change=lambda x: x, first=1, **how) -> Callable:
    """Log-probs with one thing changed; `first` = 1 reads before each token, 0 at it, 2 too early."""

    def wrong(policy, ids, mask, length, temperature):
        x = all_logprobs(policy, ids, mask, temperature, **how)
        x = x[:, -length:] if first == 0 else x[:, -length - first : -first]
        return change(picked(x, ids[:, -length:]))

    return wrong


def likeliest(policy, ids, mask, length, temperature):
    """The log-prob of the likeliest token, whichever was drawn."""
    return all_logprobs(policy, ids, mask, temperature)[:, -length - 1 : -1].amax(-1)


def at(change: Callable) -> Callable:
    """At another temperature."""

    def wrong(policy, ids, mask, length, temperature):
        return logprobs_with()(policy, ids, mask, length, change(temperature))

    return wrong


def scaled_logits(policy, ids, mask, length, temperature) -> Tensor:
    """The right logits, divided by the temperature: [B, T, V]."""
    output = policy(ids, attention_mask=mask.bool(), position_ids=position_ids(mask.bool()))
    return output.logits[:, -length - 1 : -1] / temperature


def raw_logits(policy, ids, mask, length, temperature):
    """The logit of each token, without a softmax."""
    return picked(scaled_logits(policy, ids, mask, length, temperature), ids[:, -length:])


def over(dim: int) -> Callable:
    """The softmax along another axis."""

    def wrong(policy, ids, mask, length, temperature):
        x = scaled_logits(policy, ids, mask, length, temperature)
        return picked(x.log_softmax(dim), ids[:, -length:])

    return wrong


def over_the_largest(policy, ids, mask, length, temperature):
    """Each logit minus the largest one."""
    x = scaled_logits(policy, ids, mask, length, temperature)
    return picked(x - x.amax(-1, keepdim=True), ids[:, -length:])


def unscaled_logits(policy, ids, mask, length, temperature):
    """The logit of each token, without a softmax and without the temperature."""
    return raw_logits(policy, ids, mask, length, 1.0)


def no_temperature(policy, ids, mask, length, temperature):
    """At temperature 1."""
    return logprobs_with()(policy, ids, mask, length, 1.0)


def of_previous(policy, ids, mask, length, temperature):
    """The right distribution, gathered at the token before."""
    x = all_logprobs(policy, ids, mask, temperature)[:, -length - 1 : -1]
    return picked(x, ids[:, -length - 1 : -1])


def before(x: Tensor, length: int) -> Tensor:
    """The positions just before the last `length`."""
    return x[:, -length - 1 : -1]


def without_prompt(policy, ids, mask, length, temperature):
    """The response alone is read; its first token by nothing before it."""
    x = all_logprobs(policy, ids[:, -length:], mask[:, -length:], temperature)
    first = torch.zeros_like(x[:, :1, 0])
    return torch.cat([first, picked(x[:, :-1], ids[:, -length + 1 :])], 1)


def half_scaled(policy, ids, mask, length, temperature):
    """The logit is divided by the temperature, what is in the logsumexp is not."""
    m = mask.bool()
    z = before(policy(ids, attention_mask=m, position_ids=position_ids(m)).logits, length)
    return picked(z, ids[:, -length:]) / temperature - z.logsumexp(-1)


def over_batch(policy, ids, mask, length, temperature):
    """The softmax along the batch."""
    m = mask.bool()
    z = before(policy(ids, attention_mask=m, position_ids=position_ids(m)).logits, length)
    return picked((z / temperature).log_softmax(0), ids[:, -length:])


def logsoftmax_again(policy, ids, mask, length, temperature):
    """The log-softmax of probabilities."""
    x = before(all_logprobs(policy, ids, mask, temperature), length)
    return picked(x.exp().log_softmax(-1), ids[:, -length:])


def rounded_up(least: float) -> Callable:
    """The logarithm of a probability plus a small number."""
    return logprobs_with(lambda x: (x.exp() + least).log())


LOGPROB_MISTAKES = kept([
    ("log-probs of the next token", "Your log-probs are those of the next token: logits[:, t] predict"
     " token t + 1, so the response's T tokens are predicted by logits[:, -T-1:-1].",
     logprobs_with(first=0)),
    ("one token too early", "Your logits are one position too early: response token t is predicted at"
     " the position just before it.", logprobs_with(first=2)),
    ("no temperature", "The logits are not divided by the temperature, which sampling does.",
     no_temperature),
    ("log-probs of the next token, and no temperature", "Two slips: your log-probs are those of the next"
     " token (the response's T tokens are predicted by logits[:, -T-1:-1]), and the logits are not divided"
     " by the temperature.",
     lambda policy, ids, mask, length, T: logprobs_with(first=0)(policy, ids, mask, length, 1.0)),
    ("divided after the softmax", "You divided the log-probs by the temperature; divide the logits by"
     " it, before the softmax.",
     lambda policy, ids, mask, length, T: no_temperature(policy, ids, mask, length, T) / T),
    ("log-probs of the previous tokens", "You gathered the previous tokens, ids[:, -T-1:-1]: those are"
     " in the input already. The logits are right; the tokens are ids[:, -T:].", of_previous),
    ("times the temperature", "Divide the logits by the temperature; you multiplied.",
     lambda policy, ids, mask, length, T: logprobs_with()(policy, ids, mask, length, 1 / T)),
    ("no position ids", "You gave no position_ids, so left padding moves the words to positions they"
     " were never trained on: cumsum(mask) − mask.", logprobs_with(positions="columns")),
    ("positions count from 1", "Your positions begin at 1; cumsum(mask) − mask begins at 0.",
     logprobs_with(positions="from one")),
    ("padding is read", "You gave no attention_mask: the model reads the padding.",
     logprobs_with(attend=False)),
    ("in bits", "Your log-probs are in bits; nats are asked for: the natural logarithm.",
     logprobs_with(lambda x: x / math.log(2))),
    ("the temperature twice", "The logits are divided by the temperature twice.", at(lambda T: T * T)),
    ("divided by 1 + temperature", "Divide by the temperature itself, not by 1 + temperature.",
     at(lambda T: 1 + T)),
    ("softmax over the batch", "Your softmax is along dim=0, the batch; the vocabulary is dim=-1.",
     over(0)),
    ("the largest logit for the normaliser", "You subtracted the largest logit; subtract logsumexp of all.",
     over_the_largest),
    ("padding is read", "You gave neither attention_mask nor position_ids: the model reads the"
     " padding.", logprobs_with(attend=False, positions="columns")),
    ("position ids of the first row", "You give every row the position ids of the first; each row has its"
     " own padding.", logprobs_with(positions="first row")),
    ("no prompt", "The model reads the response without its prompt: give it ids, and take the last T"
         " log-probs.",
     without_prompt),
    ("normalised without the temperature", "You divided the logits by the temperature, but not those in the"
     " logsumexp: divide first, then log_softmax.", half_scaled),
    ("root of the temperature", "You divided by the root of the temperature.",
     lambda policy, ids, mask, length, T: logprobs_with()(policy, ids, mask, length, T**0.5)),
    ("times the probability", "You multiplied log p by p, as in an entropy; return log p.",
     logprobs_with(lambda x: x * x.exp())),
    ("in bits", "Your log-probs are in bits (log2); use nats, the natural logarithm.",
     logprobs_with(lambda x: x / math.log(2))),
    ("added up along the response", "You added the log-probs up along the response (cumsum); return one for"
     " each token.", logprobs_with(lambda x: x.cumsum(1))),
    ("mean in every place", "You give the mean log-prob in every place; return one for each token.",
     logprobs_with(lambda x: x.mean(1, keepdim=True).expand_as(x))),
    ("tokens in reverse order", "Your tokens stand in reverse order.", logprobs_with(lambda x: x.flip(1))),
    ("softmax over the batch", "Your softmax is along dim=0, the batch; the vocabulary is dim=-1.",
     over_batch),
    ("log-softmax twice", "You took the softmax twice: log_softmax takes logits.",
     lambda policy, ids, mask, length, T: logsoftmax_again(policy, ids, mask, length, T)),
    ("a small number in the logarithm", "You added a small number before the logarithm: very unlikely tokens"
     " come out too likely. Use log_softmax.", rounded_up(1e-6)),
    ("a small number in the logarithm", "You added a small number before the logarithm: very unlikely tokens"
     " come out too likely. Use log_softmax.", rounded_up(1e-8)),
    ("a small number in the logarithm", "You added a small number before the logarithm: very unlikely tokens"
     " come out too likely. Use log_softmax.", rounded_up(1e-10)),
    ("probabilities", "You have probabilities; PPO needs their logarithms.",
     logprobs_with(torch.exp)),
    ("negative log-probs", "You have −log p, the cross-entropy; return log p, never above 0.",
     logprobs_with(torch.neg)),
    ("softmax over time", "Your softmax is along dim=1, the positions; the vocabulary is dim=-1.",
     over(1)),
    ("no softmax", "You gathered logits; apply log_softmax over the vocabulary first.", raw_logits),
    ("no softmax", "You gathered logits; divide them by the temperature, and apply log_softmax over the"
     " vocabulary first.", unscaled_logits),
    ("the likeliest token", "You took the likeliest token's log-prob; take the one that was drawn.",
     likeliest),
])  # fmt: skip


# --- 5: rewards -----------------------------------------------------------------------------------


def last_of(counted: Tensor) -> Tensor:
    """Index of the last counted token of each row: [B]."""
    return counted.long().sum(1) - 1


def rewards_with(penalty=None, place=last_of, replace=False) -> Callable:
    """Rewards with another penalty(difference, counted, β) or another place for the score."""

    def wrong(scores, logprobs, ref_logprobs, counted, kl_coef):
        m = counted.bool()
        difference = torch.where(m, logprobs - ref_logprobs, 0.0)
        x = (penalty or (lambda d, m, beta: -beta * d))(difference, m, kl_coef)
        rows, where = torch.arange(len(m)), place(m)
        x[rows, where] = scores if replace else x[rows, where] + scores
        return x

    return wrong


def everywhere(scores, logprobs, ref_logprobs, counted, kl_coef):
    """The score on every token."""
    x = -kl_coef * torch.where(counted.bool(), logprobs - ref_logprobs, 0.0)
    return x + scores.unsqueeze(1) * counted.bool()


def unmasked(scores, logprobs, ref_logprobs, counted, kl_coef):
    """A penalty on padding too."""
    x = -kl_coef * (logprobs - ref_logprobs)
    x[torch.arange(len(x)), last_of(counted)] += scores
    return x


def of_probabilities(scores, logprobs, ref_logprobs, counted, kl_coef):
    """A difference of probabilities."""
    return rewards_with()(scores, logprobs.exp(), ref_logprobs.exp(), counted, kl_coef)


def spread(scores, logprobs, ref_logprobs, counted, kl_coef):
    """The score in equal shares on all counted tokens."""
    x = -kl_coef * torch.where(counted.bool(), logprobs - ref_logprobs, 0.0)
    return x + (scores / counted.sum(1)).unsqueeze(1) * counted.bool()


def other_place(shares: Callable) -> Callable:
    """Scores on other tokens, padding too: `shares(scores, counted)` is [B, T]."""

    def wrong(scores, logprobs, ref_logprobs, counted, kl_coef):
        x = total_rewards(0 * scores, logprobs, ref_logprobs, counted, kl_coef)
        return x + shares(scores, counted)

    return wrong


def weighted_penalty(scores, logprobs, ref_logprobs, counted, kl_coef):
    """Each difference times the token's probability."""
    d = torch.where(counted.bool(), logprobs.exp() * (logprobs - ref_logprobs), 0.0)
    return total_rewards(scores, d, 0 * d, counted, kl_coef)


def other_scores(change: Callable) -> Callable:
    """Rewards of changed scores: `change(scores, counted)`."""
    return lambda s, p, ref, m, b: total_rewards(change(s, m), p, ref, m, b)


def whole_columns(scores, logprobs, ref_logprobs, counted, kl_coef):
    """x[:, last] += scores: each row gets scores at every row's last token."""
    x = total_rewards(0 * scores, logprobs, ref_logprobs, counted, kl_coef)
    x[:, last_of(counted)] += scores
    return x


def on_pads_and_cleared(scores, logprobs, ref_logprobs, counted, kl_coef):
    """The score in the last column, then padding set to 0."""
    x = total_rewards(0 * scores, logprobs, ref_logprobs, counted, kl_coef)
    x[:, -1] += scores
    return torch.where(counted.bool(), x, 0.0)


def without_brackets(scores, logprobs, ref_logprobs, counted, kl_coef):
    """−β·log π − log π_ref, or + log π_ref, without brackets."""
    x = torch.where(counted.bool(), -kl_coef * logprobs + ref_logprobs, 0.0)
    return x + total_rewards(scores, logprobs, logprobs, counted, kl_coef)


def charged_twice(scores, logprobs, ref_logprobs, counted, kl_coef):
    """Token by token, and once more with the score."""
    kl = torch.where(counted.bool(), logprobs - ref_logprobs, 0.0).sum(1)
    return total_rewards(scores - kl_coef * kl, logprobs, ref_logprobs, counted, kl_coef)


def at_the_end(d: Tensor, m: Tensor, beta: float) -> Tensor:
    """The whole response's KL on its last token."""
    x = torch.zeros_like(d)
    x[torch.arange(len(d)), last_of(m)] = -beta * d.sum(1)
    return x


REWARD_MISTAKES = kept([
    ("KL sign", "The KL sign is wrong: the policy is paid for drifting. Rewards lose"
     " β·(logprobs − ref_logprobs).", rewards_with(lambda d, m, beta: beta * d)),
    ("the score stands on a pad", "The score stands on the last column, which is a pad in short"
     " responses; its place is the last counted token.",
     rewards_with(place=lambda m: torch.full((len(m),), m.shape[1] - 1))),
    ("the score stands on a pad", "The score stands one past the last counted token.",
     rewards_with(place=lambda m: m.long().sum(1).clamp(max=m.shape[1] - 1))),
    ("the score one token early", "The score stands on the token before the last counted one.",
     rewards_with(place=lambda m: m.long().sum(1) - 2)),
    ("the score on the first token", "The score stands on the first token; it is paid at the last.",
     rewards_with(place=lambda m: torch.zeros(len(m), dtype=torch.long))),
    ("the score on every token", "Every token gets the score; only the last counted one does.",
     everywhere),
    ("the last penalty is lost", "The score replaces the last token's KL penalty; add it.",
     rewards_with(replace=True)),
    ("padding is charged", "Rewards on padding should be 0; log-probs there may be anything.",
     unmasked),
    ("no KL", "There is no KL penalty in your rewards.", rewards_with(lambda d, m, beta: 0 * d)),
    ("β is missing", "The KL penalty is not multiplied by kl_coef.",
     rewards_with(lambda d, m, beta: -d)),
    ("absolute KL", "Keep the sign of the difference: |k1| is biased.",
     rewards_with(lambda d, m, beta: -beta * d.abs())),
    ("k2 for k1", "You charged ½d²; charge the difference d itself (k1).",
     rewards_with(lambda d, m, beta: -beta * d.square() / 2)),
    ("k3 for k1", "You charged k3; charge the difference d itself (k1).",
     rewards_with(lambda d, m, beta: -beta * ((-d).exp() - 1 + d))),
    ("KL only at the end", "The whole response's KL stands on the last token; charge each token its"
     " own.", rewards_with(at_the_end)),
    ("KL averaged", "Each token pays the mean of its response; charge each token its own.",
     rewards_with(lambda d, m, beta: -beta * (d.sum(1) / m.sum(1)).unsqueeze(1) * m)),
    ("difference of probabilities", "You subtracted probabilities; subtract the log-probs.",
     of_probabilities),
    ("the score is multiplied by β", "You multiplied the score by kl_coef too; it weighs the KL only.",
     lambda s, *rest: total_rewards(rest[-1] * s, *rest)),
    ("no score", "There is no score in your rewards.",
     lambda s, *rest: total_rewards(0 * s, *rest)),
    ("the score spread out", "You share the score out over the counted tokens; the last one gets all of"
     " it.", spread),
    ("the score on every token", "Every token gets the score; only the last counted one does.",
     other_place(lambda s, m: s.unsqueeze(1).expand_as(m))),
    ("the mean score for all", "Every response gets the batch's mean score; each has its own.",
     other_scores(lambda s, m: s.mean().expand_as(s))),
    ("whitened scores", "You normalised the scores over the batch; take them as they are.",
     other_scores(lambda s, m: (s - s.mean()) / s.std())),
    ("centred scores", "You subtracted the batch's mean score; take the scores as they are.",
     other_scores(lambda s, m: s - s.mean())),
    ("the score per token", "You divided the score by the response's length; take it as it is.",
     other_scores(lambda s, m: s / m.sum(1))),
    ("the sign of the score", "The score has the wrong sign: it is added.",
     other_scores(lambda s, m: -s)),
    ("scores of full rows only", "Only responses that fill all columns get their score; each row's place is"
     " its own last counted token.", on_pads_and_cleared),
    ("no score for full rows", "Responses that fill all columns get no score: their last counted token is"
     " the last column.", other_scores(lambda s, m: s * (m.sum(1) < m.shape[1]))),
    ("scores of all rows", "x[:, last] picks whole columns, so each row gets scores at every row's last"
     " token. Pick one place a row: x[range(B), last].", whole_columns),
    ("falls are not charged", "You clipped negative differences to 0; they count as they are, only then is"
     " the mean right.", rewards_with(lambda d, m, beta: -beta * d.clamp(min=0))),
    ("weighted by the probability", "You weighted each difference by its token's probability. The tokens"
     " are samples already: each counts once.", weighted_penalty),
    ("no brackets", "β multiplies the whole difference: mind the brackets.", without_brackets),
    ("KL per token", "You divided the penalty by the response's length; each token pays its own"
     " difference.", rewards_with(lambda d, m, beta: -beta * d / m.sum(1, keepdim=True))),
    ("KL charged twice", "The KL is charged token by token, and once more in one sum with the score.",
     charged_twice),
])  # fmt: skip


MISTAKES = {
    "score_responses": SCORE_MISTAKES,
    "forward_logprobs": LOGPROB_MISTAKES,
    "total_rewards": REWARD_MISTAKES,
    "estimate_advantages": ADVANTAGE_MISTAKES,
}
