"""Well-known wrong versions of step 5 of a trainer, the rewards (notebook 06), and what to say of each.

A check runs them on its recorded inputs, and compares what they give with what the learner's function
gave. Signatures are those of `course_steps`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.judging.exercise import kept
from helpers.checks.trainer.course_steps import total_rewards


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
