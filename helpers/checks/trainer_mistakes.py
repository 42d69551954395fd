"""Well-known wrong versions of the steps of a trainer (notebook 06), each with what to say about it.

A check runs them on its recorded inputs, and compares what they give with what the learner's function
gave. Signatures are those of `trainer_steps`.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

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


LOGPROB_MISTAKES = kept([
    ("log-probs of the next token", "Your log-probs are those of the next token: logits[:, t] predict"
     " token t + 1, so the response's T tokens are predicted by logits[:, -T-1:-1].",
     logprobs_with(first=0)),
    ("one token too early", "Your logits are one position too early: response token t is predicted at"
     " the position just before it.", logprobs_with(first=2)),
    ("no temperature", "The logits are not divided by the temperature, which sampling does.",
     no_temperature),
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


# --- 7: the update --------------------------------------------------------------------------------


def counted_mean(x: Tensor, m: Tensor) -> Tensor:
    """The mean over counted tokens."""
    return x[m].mean()


def smaller_gain(rho: Tensor, a: Tensor, eps: float) -> Tensor:
    """PPO's gain."""
    return torch.minimum(rho * a, rho.clamp(1 - eps, 1 + eps) * a)


def larger_error(v: Tensor, old: Tensor, r: Tensor, config) -> Tensor:
    """The clipped critic's error."""
    return torch.maximum((v - r).square(), (near(v, old, config.cliprange_value) - r).square())


def near(v: Tensor, old: Tensor, eps: float) -> Tensor:
    """V, within ε of what it was."""
    return torch.clamp(v, old - eps, old + eps)


def without_last(m: Tensor, tokens: Tensor) -> Tensor:
    """The mask without the last counted token of each row."""
    return m & (m.long().cumsum(1) < m.long().sum(1, keepdim=True))


def without_stop(m: Tensor, tokens: Tensor) -> Tensor:
    """The mask without stop tokens: the shortest response ends with one."""
    shortest = int(m.sum(1).argmin())
    return m & (tokens != tokens[shortest, int(m[shortest].sum()) - 1])


def one_more(m: Tensor, tokens: Tensor) -> Tensor:
    """The mask moved on by one: the first pad counts too."""
    return torch.cat([torch.ones_like(m[:, :1]), m[:, :-1]], 1)


def mean_of_rows(x: Tensor, m: Tensor) -> Tensor:
    """The mean of the responses' means."""
    return ((x * m).sum(1) / m.sum(1)).mean()


def update_with(
    gain=smaller_gain, error=larger_error, mean=counted_mean, value_mean=None, old=None,
    masked=lambda m, tokens: m, first=1, value_first=1, temperature=None, sign=-1.0, weight=None,
    zero_grad=True, step=True, clip=nn.utils.clip_grad_norm_, clipped=("actor", "critic"),
    epochs=None, learns=("actor", "critic"), ratio_masked=True,
) -> Callable:  # fmt: skip
    """Step 7 with one thing changed. The names say what; without changes it is right."""

    def wrong(actor, critic, optimizer, rollout, config):
        ids, mask, *rest = rollout
        T, models = rest[0].shape[1], {"actor": actor, "critic": critic}
        m = masked(mask.bool()[:, -T:], ids[:, -T:])
        limited = [p for name in clipped for p in models[name].parameters()]
        for _ in range(epochs or config.num_ppo_epochs):
            for rows in torch.randperm(len(ids)).split(config.minibatch_size):
                logprobs, values, advantages, returns = (x[rows] for x in rest)
                T_now = temperature or config.temperature
                new = logprobs_with(first=first)(actor, ids[rows], mask[rows], T, T_now)
                before = logprobs if old is None else old(new, logprobs)
                same = m[rows] | torch.tensor(not ratio_masked)
                rho = torch.where(same, new - before, 0.0).exp()
                v = read_values(critic, ids[rows], mask[rows], T, value_first)
                errors = error(v, values, returns, config)
                loss = sign * mean(gain(rho, advantages, config.cliprange), m[rows])
                if "critic" in learns:
                    part = (value_mean or mean)(errors, m[rows])
                    loss = loss + (weight or (lambda c: c.vf_coef / 2))(config) * part
                if zero_grad:
                    optimizer.zero_grad()
                loss.backward()
                clip(limited, config.max_grad_norm)
                if step:
                    optimizer.step()

    return wrong


def against(target: Callable) -> Callable:
    """Step 7 whose critic learns another target: `target(rollout)`."""

    def wrong(actor, critic, optimizer, rollout, config):
        *first, returns = rollout
        update_with()(actor, critic, optimizer, (*first, target(rollout)), config)

    return wrong


def quotients(actor, critic, optimizer, rollout, config):
    """Log-probs divided by each other, for a ratio."""
    seen = []

    def keep(new, old):
        seen.append((new, old))
        return new.detach()

    def gain(rho, a, eps):
        new, old = seen[-1]
        return smaller_gain(new / old, a, eps)

    update_with(gain, old=keep)(actor, critic, optimizer, rollout, config)


UPDATE_MISTAKES = kept([
    ("max for min", "You took the larger gain (max); take the smaller one (min), or the clip has no"
     " effect.", update_with(lambda r, a, e: torch.maximum(r * a, r.clamp(1 - e, 1 + e) * a))),
    ("ratio inverted", "The ratio is inverted: it is new over old, exp(logprobs now − old).",
     update_with(lambda r, a, e: smaller_gain(1 / r, a, e))),
    ("difference without exp", "log π − log π_old is the ratio's logarithm; take exp of it.",
     update_with(lambda r, a, e: smaller_gain(r.log(), a, e))),
    ("no clip", "The ratio is not clipped: `cliprange` has no effect.",
     update_with(lambda r, a, e: r * a)),
    ("clip without min", "You used only the clipped ratio; take the smaller of the two gains.",
     update_with(lambda r, a, e: r.clamp(1 - e, 1 + e) * a)),
    ("clipped to ±ε", "You clipped the ratio to ±ε; clip it to 1 ± ε.",
     update_with(lambda r, a, e: torch.minimum(r * a, r.clamp(-e, e) * a))),
    ("the smaller ratio", "You took the smaller ratio and then multiplied; take the smaller product.",
     update_with(lambda r, a, e: torch.minimum(r, r.clamp(1 - e, 1 + e)) * a)),
    ("the loss is turned round", "The sign of the policy's loss is wrong: the optimizer goes"
     " downhill, so the loss is minus the gain.", update_with(sign=1.0)),
    ("old log-probs recomputed", "Your ratio is always 1, so nothing is clipped: the old log-probs"
     " are the rollout's, not new ones (and not left out).", update_with(old=lambda new, old: new.detach())),
    ("log-probs of the next token", "Your new log-probs are those of the next token; take"
     " logits[:, -T-1:-1], as in step 4.", update_with(first=0)),
    ("no temperature", "The new log-probs are at temperature 1, the old ones at the config's.",
     update_with(temperature=1.0)),
    ("mean over padding", "The losses are averaged over all positions; only counted ones count.",
     update_with(mean=lambda x, m: x.mean())),
    ("mean over padding", "The losses are averaged over all positions; only counted ones count.",
     update_with(mean=lambda x, m: x.mean(), ratio_masked=False)),
    ("mean over padding in the policy's loss", "The policy's loss is averaged over all positions;"
     " only counted ones count.",
     update_with(mean=lambda x, m: x.mean(), value_mean=counted_mean, ratio_masked=False)),
    ("padding in the divisor", "The padding counts as zeros in your means; divide by the counted"
     " tokens only.", update_with(mean=lambda x, m: (x * m).mean())),
    ("mean over padding in the policy's loss", "The policy's loss is averaged over all positions;"
     " only counted ones count.",
     update_with(mean=lambda x, m: x.mean(), value_mean=counted_mean)),
    ("mean over padding in the critic's loss", "The critic's loss is averaged over all positions;"
     " only counted ones count.", update_with(value_mean=lambda x, m: x.mean())),
    ("padding in the divisor of the critic's loss", "The padding counts as zeros in the critic's mean;"
     " divide by the counted tokens only.", update_with(value_mean=lambda x, m: (x * m).mean())),
    ("the stop token is masked out", "The last counted token, the stop token, is left out of the loss:"
     " the policy would not learn to stop.", update_with(masked=without_last)),
    ("the stop token is masked out", "Stop tokens are left out of the loss: the policy would not learn"
     " to stop.", update_with(masked=without_stop)),
    ("the mask one column off", "Your mask is that of the token before, so the first pad after a stop"
     " token counts: take mask[:, -T:].", update_with(masked=one_more)),
    ("sum instead of mean", "You summed over the tokens; take the mean over counted ones.",
     update_with(mean=lambda x, m: x[m].sum())),
    ("sum instead of mean in the policy's loss", "You summed the policy's loss over the tokens; take"
     " the mean over counted ones.",
     update_with(mean=lambda x, m: x[m].sum(), value_mean=counted_mean)),
    ("sum instead of mean in the critic's loss", "You summed the critic's loss over the tokens; take"
     " the mean over counted ones.", update_with(value_mean=lambda x, m: x[m].sum())),
    ("the critic's loss is turned round", "The sign of the critic's loss is wrong: its error is to"
     " become smaller, so it is added.", update_with(weight=lambda c: -c.vf_coef / 2)),
    ("the advantages are turned round", "The sign of the advantages is wrong: good tokens become less"
     " likely.", update_with(lambda r, a, e: smaller_gain(r, -a, e))),
    ("quotient of log-probs", "You divided log-probs; the ratio is exp of their difference.",
     quotients),
    ("mean per response", "You averaged each response first, so tokens of short ones weigh more.",
     update_with(mean=mean_of_rows)),
    ("min for max in the critic's loss", "You took the smaller of the critic's two squares; take the"
     " larger.", update_with(error=lambda v, old, r, c: torch.minimum(
         (v - r).square(), (near(v, old, c.cliprange_value) - r).square()))),
    ("values not clipped", "The critic's loss is (V − R)² alone, so `cliprange_value` has no"
     " effect. (A clip around the returns has none either.)",
     update_with(error=lambda v, old, r, c: (v - r).square())),
    ("only the clipped value", "You used only the clipped value; take the larger of the two squares.",
     update_with(error=lambda v, old, r, c: (near(v, old, c.cliprange_value) - r).square())),
    ("the policy's ε for the values", "The values are clipped by `cliprange`; theirs is"
     " `cliprange_value`.",
     update_with(error=lambda v, old, r, c: torch.maximum(
         (v - r).square(), (near(v, old, c.cliprange) - r).square()))),
    ("values one token late", "The critic is read one position late, at logits[:, -T:]; take"
     " logits[:, -T-1:-1].", update_with(value_first=0)),
    ("½ missing", "The critic's loss lacks the half.", update_with(weight=lambda c: c.vf_coef)),
    ("vf_coef missing", "The critic's loss is not multiplied by vf_coef.",
     update_with(weight=lambda c: 0.5)),
    ("vf_coef and ½ missing", "The critic's loss lacks vf_coef and the half.",
     update_with(weight=lambda c: 1.0)),
    ("the critic does not learn", "No gradient reaches the critic: its loss is not in yours.",
     update_with(learns=("actor",))),
    ("values against the advantages", "The critic learns the advantages; its target is the returns.",
     against(lambda rollout: rollout[4])),
    ("values against the old values", "The critic learns its old values; its target is the returns.",
     against(lambda rollout: rollout[3])),
    ("no zero_grad", "There is no zero_grad: from the second step on, old gradients are still in it.",
     update_with(zero_grad=False)),
    ("gradients not clipped", "The gradient is not clipped to max_grad_norm before the step.",
     update_with(clip=lambda p, size: None)),
    ("only the actor's gradient clipped", "Only the actor's gradient is clipped; take one norm over"
     " actor and critic together.", update_with(clipped=("actor",))),
    ("gradients clipped value by value", "clip_grad_value_ clips each number alone; clip_grad_norm_"
     " shortens the whole gradient.", update_with(clip=nn.utils.clip_grad_value_)),
    ("clipped apart", "Actor and critic are clipped apart; take one norm over both.",
     update_with(clip=lambda p, size: [
         nn.utils.clip_grad_norm_(half, size) for half in (p[: len(p) // 2], p[len(p) // 2 :])])),
])  # fmt: skip
MISTAKES = {
    "score_responses": SCORE_MISTAKES,
    "forward_logprobs": LOGPROB_MISTAKES,
    "total_rewards": REWARD_MISTAKES,
    "estimate_advantages": ADVANTAGE_MISTAKES,
    "update": UPDATE_MISTAKES,
}
