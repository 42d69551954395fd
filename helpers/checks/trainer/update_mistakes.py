"""Well-known wrong versions of step 7 of a trainer, the PPO update (notebook 06), and what to say.

`update_with` is the update with one thing changed; each mistake names the thing.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from helpers.checks.gae.credit_mistakes import read_values
from helpers.checks.judging.exercise import kept
from helpers.checks.trainer.logprob_mistakes import logprobs_with
from helpers.one_page import whiten


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


def around(limits: Callable) -> Callable:
    """The critic's error with values clipped to other limits(old, ε)."""

    def error(v: Tensor, old: Tensor, r: Tensor, config) -> Tensor:
        low, high = limits(old, config.cliprange_value)
        clipped = torch.minimum(
            torch.maximum(v, torch.minimum(low, high)), torch.maximum(low, high)
        )
        return torch.maximum((v - r).square(), (clipped - r).square())

    return error


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


def sum_of_rows(x: Tensor, m: Tensor) -> Tensor:
    """The mean of the responses' sums."""
    return (x * m).sum(1).mean()


def update_with(
    gain=smaller_gain, error=larger_error, mean=counted_mean, value_mean=None, old=None,
    masked=lambda m, tokens: m, first=1, value_first=1, temperature=None, sign=-1.0, weight=None,
    zero_grad=True, step=True, clip=nn.utils.clip_grad_norm_, clipped=("actor", "critic"),
    share=None, epochs=None, learns=("actor", "critic"), ratio_masked=True, change=lambda a, m: a,
) -> Callable:  # fmt: skip
    """Step 7 with one thing changed. The names say what; without changes it is right."""

    def wrong(actor, critic, optimizer, rollout, config):
        ids, mask, *rest = rollout
        T, models = rest[0].shape[1], {"actor": actor, "critic": critic}
        m = masked(mask.bool()[:, -T:], ids[:, -T:])
        groups = [clipped] if isinstance(clipped[0], str) else clipped
        groups = [[p for name in group for p in models[name].parameters()] for group in groups]
        for _ in range(epochs or config.num_ppo_epochs):
            for rows in torch.randperm(len(ids)).split(config.minibatch_size):
                logprobs, values, advantages, returns = (x[rows] for x in rest)
                T_now = temperature or config.temperature
                new = logprobs_with(first=first)(actor, ids[rows], mask[rows], T, T_now)
                advantages = change(advantages, m[rows])
                before = logprobs if old is None else old(new, logprobs)
                same = m[rows] | torch.tensor(not ratio_masked)
                rho = torch.where(same, new - before, 0.0).exp()
                v = read_values(critic, ids[rows], mask[rows], T, value_first)
                errors = error(v, values, returns, config)
                loss = sign * mean(gain(rho, advantages, config.cliprange), m[rows])
                loss = loss if share is None else share(config) * loss
                if "critic" in learns:
                    part = (value_mean or mean)(errors, m[rows])
                    loss = loss + (weight or (lambda c: c.vf_coef / 2))(config) * part
                if zero_grad:
                    optimizer.zero_grad()
                loss.backward()
                for parameters in groups:
                    clip(parameters, config.max_grad_norm)
                if step:
                    optimizer.step()

    return wrong


def against(target: Callable) -> Callable:
    """Step 7 whose critic learns another target: `target(rollout)`."""

    def wrong(actor, critic, optimizer, rollout, config):
        *first, returns = rollout
        update_with()(actor, critic, optimizer, (*first, target(rollout)), config)

    return wrong


def exchanged(actor, critic, optimizer, rollout, config):
    """Advantages and returns in each other's place."""
    *first, advantages, returns = rollout
    update_with()(actor, critic, optimizer, (*first, returns, advantages), config)


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
    ("max for min", "You took the larger gain (max); take the smaller one (min), the more"
     " pessimistic.", update_with(lambda r, a, e: torch.maximum(r * a, r.clamp(1 - e, 1 + e) * a))),
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
    ("clipped above only", "You clipped the ratio only at 1 + ε; clip it at 1 − ε too.",
     update_with(lambda r, a, e: torch.minimum(r * a, r.clamp(max=1 + e) * a))),
    ("clipped below only", "You clipped the ratio only at 1 − ε; clip it at 1 + ε too.",
     update_with(lambda r, a, e: torch.minimum(r * a, r.clamp(min=1 - e) * a))),
    ("the log-ratio clipped", "You clipped the log-ratio to ±ε; clip the ratio itself to 1 ± ε.",
     update_with(lambda r, a, e: torch.minimum(r * a, r.log().clamp(-e, e).exp() * a))),
    ("first order of exp", "You took 1 + log-ratio for the ratio; take exp.",
     update_with(lambda r, a, e: smaller_gain(1 + r.log(), a, e))),
    ("one ratio for a response", "You used one ratio for a whole response, of its summed log-probs; each"
     " token has its own.", update_with(lambda r, a, e: smaller_gain(
         r.log().sum(1, keepdim=True).exp().expand_as(r), a, e))),
    ("one ratio for a response", "You used one ratio for a whole response, of its mean log-ratio; each token"
     " has its own.", update_with(lambda r, a, e: smaller_gain(
         r.log().mean(1, keepdim=True).exp().expand_as(r), a, e))),
    ("the smaller ratio", "You took the smaller ratio and then multiplied; take the smaller product.",
     update_with(lambda r, a, e: torch.minimum(r, r.clamp(1 - e, 1 + e)) * a)),
    ("the loss is turned round", "The sign of the policy's loss is wrong: the optimizer goes"
     " downhill, so the loss is minus the gain.", update_with(sign=1.0)),
    ("old log-probs recomputed", "Your gradient is that of a ratio of 1, never clipped: the old log-probs"
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
    ("the stop token is masked out", "The last counted token of each response is left out of the loss:"
     " where it is the stop token, the policy would not learn to stop.", update_with(masked=without_last)),
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
    ("values clipped around 0", "You clipped the values to ±ε_v; they stay within ε_v of the old values.",
     update_with(error=around(lambda old, eps: (0 * old - eps, 0 * old + eps)))),
    ("values clipped as a ratio", "You clipped the values to old · (1 ± ε_v); add and subtract ε_v.",
     update_with(error=around(lambda old, eps: (old * (1 - eps), old * (1 + eps))))),
    ("absolute errors", "You took the absolute errors of the critic; take their squares.",
     update_with(error=lambda v, old, r, c: torch.maximum(
         (v - r).abs(), (near(v, old, c.cliprange_value) - r).abs()))),
    ("vf_coef on the policy's loss", "vf_coef stands before the policy's loss; it weighs the critic's.",
     update_with(weight=lambda c: 0.5, share=lambda c: c.vf_coef)),
    ("vf_coef on both losses", "vf_coef stands before the policy's loss too; it weighs the critic's alone.",
     update_with(share=lambda c: c.vf_coef)),
    ("½ missing", "The critic's loss lacks the half.", update_with(weight=lambda c: c.vf_coef)),
    ("vf_coef missing", "The critic's loss is not multiplied by vf_coef.",
     update_with(weight=lambda c: 0.5)),
    ("vf_coef and ½ missing", "The critic's loss lacks vf_coef and the half.",
     update_with(weight=lambda c: 1.0)),
    ("the critic does not learn", "No gradient reaches the critic: its loss is not in yours, or is"
     " detached.",
     update_with(learns=("actor",))),
    ("the actor does not learn", "No gradient reaches the actor: its loss is not in yours, or is"
     " detached.", update_with(change=lambda a, m: 0 * a)),
    ("values against the advantages", "The critic learns the advantages; its target is the returns.",
     against(lambda rollout: rollout[4])),
    ("values against the old values", "The critic learns its old values; its target is the returns.",
     against(lambda rollout: rollout[3])),
    ("returns rebuilt from whitened advantages", "You rebuilt the returns as advantages + values; but the"
     " advantages are whitened by now. Take the rollout's returns.",
     against(lambda rollout: rollout[4] + rollout[3])),
    ("no zero_grad", "From the second step on, old gradients are still in yours: call zero_grad before each"
     " backward.",
     update_with(zero_grad=False)),
    ("gradients not clipped", "The gradient is not clipped to max_grad_norm before the step.",
     update_with(clip=lambda p, size: None)),
    ("only the actor's gradient clipped", "Only the actor's gradient is clipped; take one norm over"
     " actor and critic together.", update_with(clipped=("actor",))),
    ("gradients clipped value by value", "clip_grad_value_ clips each number alone; clip_grad_norm_"
     " shortens the whole gradient.", update_with(clip=nn.utils.clip_grad_value_)),
    ("clipped apart", "Actor and critic are clipped apart; take one norm over both.",
     update_with(clipped=(("actor",), ("critic",)))),
    ("advantages whitened again in the minibatch", "You whiten the advantages again, which changes them"
     " in a minibatch. They are whitened already, over the whole batch (step 6): take them as they are.",
     update_with(change=whiten)),
    ("advantages whitened again in the minibatch", "You whiten the advantages again, which changes them"
     " in a minibatch. They are whitened already, over the whole batch (step 6): take them as they are.",
     update_with(change=lambda a, m: (a - a[m].mean()) / (a[m].std() + 1e-8))),
    ("advantages whitened again in the minibatch", "You whiten the advantages again, padding and all."
     " They are whitened already, over the whole batch (step 6): take them as they are.",
     update_with(change=lambda a, m: (a - a.mean()) / (a.std() + 1e-8))),
    ("advantages centred again in the minibatch", "You subtract the minibatch's mean from the"
     " advantages. They are whitened already (step 6): take them as they are.",
     update_with(change=lambda a, m: a - a[m].mean())),
    ("advantages and returns exchanged", "Advantages and returns are exchanged: the policy learns"
     " from the advantages, the critic from the returns. The rollout ends with (…, values,"
     " advantages, returns).", exchanged),
    ("mean per response in the policy's loss", "In the policy's loss you averaged each response first,"
     " so tokens of short ones weigh more.",
     update_with(mean=mean_of_rows, value_mean=counted_mean)),
    ("mean per response in the critic's loss", "In the critic's loss you averaged each response first,"
     " so tokens of short ones weigh more.", update_with(value_mean=mean_of_rows)),
    ("sum per response", "You summed over each response's tokens and then averaged over the responses;"
     " take the mean over counted tokens.", update_with(mean=sum_of_rows)),
    ("sum per response in the policy's loss", "In the policy's loss you summed over each response's"
     " tokens; take the mean over counted ones.",
     update_with(mean=sum_of_rows, value_mean=counted_mean)),
])  # fmt: skip
