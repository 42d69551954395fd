"""Well-known wrong versions of steps 3 to 6 of a trainer (notebook 06), each with what to say about it.

A check runs them on its recorded inputs, and compares what they give with what the learner's function
gave. Signatures are those of `trainer_steps`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.exercise import Mistake
from helpers.checks.trainer_steps import estimate_advantages, score_responses, total_rewards
from helpers.one_page import position_ids, whiten


def kept(mistakes: list[tuple]) -> list[Mistake]:
    """Tuples as `Mistake`s."""
    return [Mistake(*entry) for entry in mistakes]


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


def raw_logits(policy, ids, mask, length, temperature):
    """The logit of each token, without a softmax."""
    output = policy(ids, attention_mask=mask.bool(), position_ids=position_ids(mask.bool()))
    return picked(output.logits[:, -length - 1 : -1] / temperature, ids[:, -length:])


def likeliest(policy, ids, mask, length, temperature):
    """The log-prob of the likeliest token, whichever was drawn."""
    return all_logprobs(policy, ids, mask, temperature)[:, -length - 1 : -1].amax(-1)


def over_time(policy, ids, mask, length, temperature):
    """The softmax along the positions."""
    output = policy(ids, attention_mask=mask.bool(), position_ids=position_ids(mask.bool()))
    x = output.logits[:, -length - 1 : -1] / temperature
    return picked(x.log_softmax(1), ids[:, -length:])


def no_temperature(policy, ids, mask, length, temperature):
    """At temperature 1."""
    return logprobs_with()(policy, ids, mask, length, 1.0)


def of_previous(policy, ids, mask, length, temperature):
    """The right distribution, gathered at the token before."""
    x = all_logprobs(policy, ids, mask, temperature)[:, -length - 1 : -1]
    return picked(x, ids[:, -length - 1 : -1])


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
    ("padding is read", "You gave neither attention_mask nor position_ids: the model reads the"
     " padding.", logprobs_with(attend=False, positions="columns")),
    ("probabilities", "You have probabilities; PPO needs their logarithms.",
     logprobs_with(torch.exp)),
    ("negative log-probs", "You have −log p, the cross-entropy; return log p, never above 0.",
     logprobs_with(torch.neg)),
    ("softmax over time", "Your softmax is along dim=1, the positions; the vocabulary is dim=-1.",
     over_time),
    ("no softmax", "You gathered logits; apply log_softmax over the vocabulary first.", raw_logits),
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
])  # fmt: skip


# --- 6: advantages --------------------------------------------------------------------------------


def read_values(critic, ids, mask, length, first=1, positions=True) -> Tensor:
    """The critic before each response token (`first` = 1), or at it (0): [B, T]."""
    m = mask.bool()
    more = {"position_ids": position_ids(m)} if positions else {}
    x = critic(ids, attention_mask=m, **more).logits.squeeze(-1)
    return x[:, -length:] if first == 0 else x[:, -length - 1 : -1]


def gae(rewards, values, gamma, lam, decay=None, target=None, start=0.0) -> Tensor:
    """GAE over all columns, with another decay or another next value."""
    columns, running, following = [], 0.0, start
    for t in reversed(range(rewards.shape[1])):
        ahead = following if target is None else target(values, t)
        running = rewards[:, t] + gamma * ahead - values[:, t]
        running = running + (gamma * lam if decay is None else decay) * (
            columns[-1] if columns else 0
        )
        columns.append(running)
        following = values[:, t]
    return torch.stack(columns[::-1], 1)


def advantages_with(
    make=gae, change=whiten, returns=lambda a, v, r, m, gamma: a + v, masked=True, **reading
) -> Callable:
    """Step 6 with one thing changed: GAE, whitening, returns, or how the critic is read."""

    @torch.no_grad()
    def wrong(critic, ids, mask, rewards, gamma, lam):
        m = mask.bool()[:, -rewards.shape[1] :]
        values = read_values(critic, ids, mask, rewards.shape[1], **reading)
        values = values * m if masked else values
        a = make(rewards, values, gamma, lam)
        return values, change(a, m), returns(a, values, rewards, m, gamma)

    return wrong


def to_go(rewards: Tensor, gamma: float) -> Tensor:
    """Discounted rewards to go."""
    return gae(rewards, torch.zeros_like(rewards), gamma, 1.0)


def whitened_rows(a: Tensor, m: Tensor) -> Tensor:
    """Each response by its own mean and deviation."""
    return torch.stack([whiten(x[None], n[None])[0] for x, n in zip(a, m, strict=True)])


def forwards(rewards, values, gamma, lam):
    """The sum run through time forwards."""
    following = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], 1)
    deltas, running, columns = rewards + gamma * following - values, 0.0, []
    for t in range(rewards.shape[1]):
        running = deltas[:, t] + gamma * lam * running
        columns.append(running)
    return torch.stack(columns, 1)


def previous_value(rewards, values, gamma, lam):
    """The usual loop, run forwards: the value before stands for the value after."""
    columns, running, before = [], 0.0, 0.0
    for t in range(rewards.shape[1]):
        running = rewards[:, t] + gamma * before - values[:, t] + gamma * lam * running
        columns.append(running)
        before = values[:, t]
    return torch.stack(columns, 1)


def exchanged(order: tuple[int, int, int]) -> Callable:
    """The three results in another order."""

    def wrong(*given):
        found = estimate_advantages(*given)
        return tuple(found[k] for k in order)

    return wrong


def whitened_rows_with_padding(a: Tensor, m: Tensor) -> Tensor:
    """Each row by its own mean and deviation, padding and all."""
    return (a - a.mean(1, keepdim=True)) / a.std(1, keepdim=True) * m


def biased(a: Tensor, m: Tensor) -> Tensor:
    """Whitened by the variance with divisor n: as right as the other."""
    return (a - a[m].mean()) / a[m].std(correction=0) * m


ADVANTAGE_MISTAKES = kept([
    *[("the order of the results", "Return them in this order: values, advantages, returns.",
       exchanged(order)) for order in ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))],
    ("V with a plus", "The value is added in δ; it is subtracted: δ_t = r_t + γ·V_{t+1} − V_t.",
     advantages_with(lambda r, v, g, lam: gae(r + 2 * v, v, g, lam))),
    ("time runs forwards", "The loop runs forwards in time; it runs backwards, from the last token.",
     advantages_with(previous_value)),
    ("rewards + values for returns", "Your returns are rewards + values; they are advantages +"
     " values.", advantages_with(returns=lambda a, v, r, m, g: r + v)),
    ("whitened per response", "You whitened each row alone, padding and all; the statistics are the"
     " batch's, over counted tokens.", advantages_with(change=whitened_rows_with_padding)),
    ("values of the next token", "Your values are one position late: the value of response token t"
     " stands just before it, at logits[:, -T-1:-1].", advantages_with(first=0)),
    ("no position ids", "The critic got no position_ids: cumsum(mask) − mask.",
     advantages_with(positions=False)),
    ("values of padding kept", "Values on padding leak into the last counted token: set them to 0"
     " before GAE.", advantages_with(masked=False)),
    ("advantages whitened before the returns were formed", "The advantages were whitened before the"
     " returns were formed: returns = raw advantages + values, then whiten.",
     advantages_with(returns=lambda a, v, r, m, g: whiten(a, m) + v)),
    ("returns whitened", "You whitened the returns; they are targets in reward units.",
     advantages_with(returns=lambda a, v, r, m, g: whiten(a + v, m))),
    ("returns without the values", "Your returns are the advantages; add the values.",
     advantages_with(returns=lambda a, v, r, m, g: a)),
    ("returns are whitened advantages", "Your returns are whitened advantages; they are raw"
     " advantages + values.", advantages_with(returns=lambda a, v, r, m, g: whiten(a, m))),
    ("rewards to go for returns", "Your returns are the discounted rewards to go, which is λ = 1;"
     " here returns = advantages + values.",
     advantages_with(returns=lambda a, v, r, m, g: to_go(r, g))),
    ("sum of rewards for returns", "Your returns are the sums of the rewards still to come, without γ"
     " and λ (Monte Carlo); here returns = advantages + values.",
     advantages_with(returns=lambda a, v, r, m, g: to_go(r, 1.0) * m)),
    ("sum of rewards for returns", "Your returns are the response's whole sum of rewards, the same at"
     " each token (Monte Carlo); here returns = advantages + values.",
     advantages_with(returns=lambda a, v, r, m, g: r.sum(1, keepdim=True) * m)),
    ("rewards for returns", "Your returns are the rewards; the target of V is advantages + values.",
     advantages_with(returns=lambda a, v, r, m, g: r)),
    ("not whitened", "The advantages are not whitened.", advantages_with(change=lambda a, m: a)),
    ("whitened with the padding", "Mean and variance are over the padding too; take counted tokens"
     " only.", advantages_with(change=lambda a, m: (a - a.mean()) / a.std() * m)),
    ("whitened per response", "You whitened each response alone; the statistics are the batch's.",
     advantages_with(change=whitened_rows)),
    ("divided by the variance", "You divided by the variance; divide by its square root.",
     advantages_with(change=lambda a, m: (a - a[m].mean()) / a[m].var() * m)),
    ("the mean kept", "You did not subtract the mean of the counted advantages.",
     advantages_with(change=lambda a, m: a / a[m].std() * m)),
    ("centred only", "You subtracted the mean; divide by the standard deviation too.",
     advantages_with(change=lambda a, m: (a - a[m].mean()) * m)),
    ("no γ in δ", "δ lacks γ: δ_t = r_t + γ·V_{t+1} − V_t.",
     advantages_with(lambda r, v, g, lam: gae(r, v, 1.0, lam, decay=g * lam))),
    ("no γ in the sum", "The running sum decays by λ alone; it decays by γλ.",
     advantages_with(lambda r, v, g, lam: gae(r, v, g, lam, decay=lam))),
    ("no λ", "The running sum decays by γ alone; it decays by γλ.",
     advantages_with(lambda r, v, g, lam: gae(r, v, g, lam, decay=g))),
    ("γ and λ not used", "γ and λ have no effect.",
     advantages_with(lambda r, v, g, lam: gae(r, v, 1.0, 1.0))),
    ("γ not used", "γ has no effect.", advantages_with(lambda r, v, g, lam: gae(r, v, 1.0, lam))),
    ("λ not used", "λ has no effect on δ, only on the sum; your γ is λ, and λ is γ in δ.",
     advantages_with(lambda r, v, g, lam: gae(r, v, lam, g))),
    ("V_t for V_{t+1}", "δ uses V_t twice: δ_t = r_t + γ·V_{t+1} − V_t. Keep the next value before"
     " you overwrite it.",
     advantages_with(lambda r, v, g, lam: gae(r, v, g, lam, target=lambda v, t: v[:, t]))),
    ("no next value", "δ lacks γ·V_{t+1}: δ_t = r_t + γ·V_{t+1} − V_t.",
     advantages_with(lambda r, v, g, lam: gae(r, v, g, lam, target=lambda v, t: 0.0))),
    ("time runs forwards", "The sum runs forwards in time; it runs backwards, from the last token.",
     advantages_with(forwards)),
    ("TD errors only", "Your advantages are the TD errors δ alone (λ = 0).",
     advantages_with(lambda r, v, g, lam: gae(r, v, g, lam, decay=0.0))),
    ("δ's sign", "The sign of δ is wrong: reward + next value − value.",
     advantages_with(lambda r, v, g, lam: -gae(r, v, g, lam))),
    ("no critic", "Your advantages leave the critic out: these are rewards to go.",
     advantages_with(lambda r, v, g, lam: to_go(r, g))),
])  # fmt: skip


MISTAKES = {
    "score_responses": SCORE_MISTAKES,
    "forward_logprobs": LOGPROB_MISTAKES,
    "total_rewards": REWARD_MISTAKES,
    "estimate_advantages": ADVANTAGE_MISTAKES,
}
