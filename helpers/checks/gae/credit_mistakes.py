"""Well-known wrong versions of step 6, advantages and returns, with what to say about them."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.checks.judging.exercise import kept
from helpers.checks.trainer.course_steps import estimate_advantages
from helpers.one_page import position_ids, whiten


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


def changed_gae(delta=lambda d, g, lam: d, ahead=None, fold=lambda x: x, last=True) -> Callable:
    """GAE with one thing changed in the loop.

    `delta(δ, γ, λ)` is what the sum takes up, `ahead(r, v, t, running)` the next value, `fold` is applied
    to the running sum, and without `last` the last column is never visited.
    """

    def make(rewards, values, gamma, lam):
        T, running = rewards.shape[1], torch.zeros(len(rewards))
        made = torch.zeros_like(rewards)
        for t in reversed(range(T if last else T - 1)):
            following = values[:, t + 1] if t + 1 < T else 0.0
            following = following if ahead is None else ahead(rewards, values, t, running)
            one = rewards[:, t] + gamma * following - values[:, t]
            running = fold(delta(one, gamma, lam) + gamma * lam * running)
            made[:, t] = running
        return made

    return make


def next_reward(rewards, values, t, running):
    """The next reward, where the next value belongs."""
    return rewards[:, t + 1] if t + 1 < rewards.shape[1] else 0.0


def faded(share: Callable) -> Callable:
    """Right advantages times share(γ, λ)^t."""

    def make(rewards, values, gamma, lam):
        return gae(rewards, values, gamma, lam) * share(gamma, lam) ** torch.arange(
            rewards.shape[1]
        )

    return make


def discounted(rewards, values, gamma):
    """Rewards and values, each times γ^t: their plain δ is γ^t·δ_t."""
    share = gamma ** torch.arange(rewards.shape[1])
    return rewards * share, values * share


def row_means(a: Tensor, m: Tensor) -> Tensor:
    """The mean of the rows' means."""
    return ((a * m).sum(1) / m.sum(1)).mean()


def columns_whitened(a: Tensor, m: Tensor) -> Tensor:
    """Each column by its own mean and deviation, padding and all."""
    return (a - a.mean(0)) / (a.std(0) + 1e-8) * m


def padding_in_the_mean(a: Tensor, m: Tensor) -> Tensor:
    """The sum divided by all positions."""
    return (a - (a * m).sum() / m.numel()) / a[m].std() * m


def squares_of_padding(a: Tensor, m: Tensor) -> Tensor:
    """Padding counts in the squares, with the right mean."""
    d = a * m - a[m].mean()
    return d / (d.square().sum() / (m.sum() - 1)).sqrt() * m


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


def of_returns(critic, ids, mask, rewards, gamma, lam):
    """A + V whitened, where A alone is to be."""
    values, _, returns = estimate_advantages(critic, ids, mask, rewards, gamma, lam)
    m = mask.bool()[:, -rewards.shape[1] :]
    return values, whiten(returns, m), returns


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
    ("no position ids", "The critic counts padding in its positions: give it position_ids, cumsum(mask)"
     " − mask.",
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
    ("γ and λ exchanged", "γ and λ are exchanged: δ has γ in it, and λ comes into the sum alone.",
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
    ("no γλ in the sum", "The running sum is not decayed; it decays by γλ.",
     advantages_with(lambda r, v, g, lam: gae(r, v, g, lam, decay=1.0))),
    ("the last value once more", "After the last column you take the critic's last value for the next one;"
     " nothing follows, so it is 0.",
     advantages_with(lambda r, v, g, lam: gae(r, v, g, lam, start=v[:, -1]))),
    ("the running advantage for V_{t+1}", "δ takes the next advantage where γ·V_{t+1} belongs; they are"
     " two numbers.", advantages_with(changed_gae(ahead=lambda r, v, t, running: running))),
    ("the next reward for V_{t+1}", "δ takes the next reward where γ·V_{t+1} belongs.",
     advantages_with(changed_gae(ahead=next_reward))),
    ("γλ on δ", "γλ multiplies δ too; it multiplies the running sum alone.",
     advantages_with(changed_gae(lambda d, g, lam: g * lam * d))),
    ("γλ on δ", "γλ multiplies δ, and not the running sum; it is the other way round.",
     advantages_with(lambda r, v, g, lam: gae(g * lam * r, g * lam * v, g, lam, decay=1.0))),
    ("γλ on the next value", "γλ stands before V_{t+1}, and the sum is not decayed: γ stands there, and γλ"
     " before the running sum.", advantages_with(lambda r, v, g, lam: gae(r, v, g * lam, lam, decay=1.0))),
    ("γλ on the next value", "γλ stands before V_{t+1}; only γ stands there.",
     advantages_with(lambda r, v, g, lam: gae(r, v, g * lam, lam, decay=g * lam))),
    ("1 − λ on δ", "δ is multiplied by 1 − λ, as in a moving average; the sum takes up the whole δ.",
     advantages_with(changed_gae(lambda d, g, lam: (1 - lam) * d))),
    ("1 − λ on δ", "δ is multiplied by 1 − γλ, as in a moving average; the sum takes up the whole δ.",
     advantages_with(changed_gae(lambda d, g, lam: (1 - g * lam) * d))),
    ("discounted from the start", "You discount by the place in the response too (γ^t); each A_t counts"
     " from its own t.", advantages_with(faded(lambda g, lam: g))),
    ("discounted from the start", "You discount by the place in the response too, (γλ)^t; each A_t counts"
     " from its own t.", advantages_with(faded(lambda g, lam: g * lam))),
    ("discounted from the start", "You discount δ by its place in the response too; each A_t counts from"
     " its own t.", advantages_with(lambda r, v, g, lam: gae(*discounted(r, v, g), 1.0, lam, decay=g * lam))),
    ("averaged over the batch", "The running sum is averaged over the batch; each row has its own.",
     advantages_with(changed_gae(fold=lambda x: x.mean().expand_as(x)))),
    ("the last column is not visited", "The loop never visits the last column: range(T), turned round.",
     advantages_with(changed_gae(last=False))),
    ("no reward in δ", "δ lacks the reward: δ_t = r_t + γ·V_{t+1} − V_t.",
     advantages_with(lambda r, v, g, lam: gae(0 * r, v, g, lam))),
    ("one-step targets", "Your returns are r + γ·V_{t+1}, which is λ = 0; here returns = advantages +"
     " values.",
     advantages_with(returns=lambda a, v, r, m, g: gae(r, v, g, 0.0) + v)),
    ("A − V", "You subtracted the values; returns = advantages + values.",
     advantages_with(returns=lambda a, v, r, m, g: a - v)),
    ("V − A", "The sign of the advantages is wrong in your returns: advantages + values.",
     advantages_with(returns=lambda a, v, r, m, g: v - a)),
    ("the values for returns", "Your returns are the values; add the advantages.",
     advantages_with(returns=lambda a, v, r, m, g: v)),
    ("the next value in the returns", "Your returns are A + V_{t+1}; add the value of the same token.",
     advantages_with(returns=lambda a, v, r, m, g: a + torch.cat([v[:, 1:], 0 * v[:, :1]], 1))),
    ("whitened per column", "You whitened each column alone; the statistics are the batch's.",
     advantages_with(change=columns_whitened)),
    ("padding in the mean", "The sum is divided by all positions; divide by the counted ones.",
     advantages_with(change=padding_in_the_mean)),
    ("padding in the squares", "Padding counts in your variance, with (0 − mean)² each; take counted"
     " tokens only.", advantages_with(change=squares_of_padding)),
    ("the mean kept in the deviation", "Your deviation is the root of the mean square: subtract the mean"
     " first.", advantages_with(change=lambda a, m: (a - a[m].mean()) / a[m].square().mean().sqrt() * m)),
    ("the mean kept", "You divided by the root of the mean square; subtract the mean of the counted"
     " advantages first.", advantages_with(change=lambda a, m: a / a[m].square().mean().sqrt() * m)),
    ("the mean added again", "You added the mean again after whitening, as for rewards; advantages are"
     " left with mean 0.", advantages_with(change=lambda a, m: (whiten(a, m) + a[m].mean()) * m)),
    ("a mean of means", "The mean is that of the responses' means; each counted token weighs the same.",
     advantages_with(change=lambda a, m: (a - row_means(a, m)) / a[m].std() * m)),
    ("the returns whitened for advantages", "The advantages that you whiten have the values in them"
     " already: they are the returns. Did += change them?", of_returns),
    ("no critic", "Your advantages leave the critic out: these are rewards to go.",
     advantages_with(lambda r, v, g, lam: to_go(r, g))),
])  # fmt: skip
