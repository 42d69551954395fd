"""Exercises of lesson 02: rewards per token, TD errors, advantages and returns."""

import torch

from helpers.kit.exercise import floats, noise, prefix_mask, sizes
from helpers.kit.judge import exercise

SHORT = (
    torch.tensor([2.0]),
    floats([-1.0, -0.5, -2.0, 3.0]),
    floats([-1.5, -1.5, -0.5, 1.0]),
    prefix_mask(4, 3),
    0.1,
)
NOISE = torch.tensor([1.0, -3.0, 0.5]), -noise(1, 3, 5).abs(), -noise(2, 3, 5).abs()
BATCH = (*NOISE, prefix_mask(5, 2, 5, 4), 0.2)
# what is special there, and what is said to an answer that is wrong there alone
NAN = (
    "padding holds NaN: mask · NaN is NaN, whatever the mask. Clear what padding holds with"
    " torch.where(mask, x, 0.0), not with mask * x."
)

check_shape_rewards = exercise(
    """\
def shape_rewards(scores, logprobs, ref_logprobs, mask, kl_coef):
    penalty = -kl_coef * (logprobs - ref_logprobs)
    rewards = torch.where(mask, penalty, 0.0)
    last = mask.sum(1) - 1  # (B,) index of the last counted token
    rows = torch.arange(len(scores), device=scores.device)
    rewards[rows, last] += scores
    return rewards
""",
    "r_t = −β·(log π − log π_ref) + score at the last counted token (Ziegler et al. 2019, eq. 2 per token)",
    [SHORT, BATCH],
    """\
score on the last column: You put the score in the last column, which is padding in rows that end early.
- mask.sum(1) - 1
+ torch.full_like(mask.sum(1), mask.shape[1] - 1)
score at every token: The score comes once, at the last counted token; you put it at every token (index the
 rows too: rewards[rows, last]).
- rewards[rows, last] += scores
+ rewards += torch.where(mask, scores[:, None], 0.0)
score in whole columns: rewards[:, last] picks whole columns, for every row: index the rows too,
 rewards[rows, last].
- rewards[rows, last] += scores
+ rewards[:, last] += scores
score replaces the KL penalty: The last token has its KL penalty as well: add the score to it.
- rewards[rows, last] += scores
+ rewards[rows, last] = scores
KL penalty added: You reward the distance from the reference: the penalty is −β·(log π − log π_ref).
- -kl_coef *
+ kl_coef *
β on the score: β scales the KL penalty alone, not the score.
- += scores
+ += kl_coef * scores
k3 instead of k1: You used k3, which is never negative; the reward uses k1, the difference itself.
- (logprobs - ref_logprobs)
+ (torch.expm1(ref_logprobs - logprobs) + logprobs - ref_logprobs)
KL summed at the end: You put the response's whole KL on its last token; each token pays its own.
- torch.where(mask, penalty, 0.0)
-
+ torch.zeros_like(penalty)
+     scores = scores + torch.where(mask, penalty, 0.0).sum(1)
+
""",
    further=[
        ("a response has one token", (*NOISE, prefix_mask(5, 1, 5, 4), 0.2)),
        (
            NAN,
            (BATCH[0], *(torch.where(BATCH[3], x, torch.nan) for x in BATCH[1:3]), *BATCH[3:]),
        ),
        *sizes(BATCH),
    ],
)

EPISODE = (floats([1.0, 0.0, 2.0, 7.0]), floats([0.5, 1.5, 1.0, 3.0]))
EPISODES = (noise(3, 3, 5), noise(4, 3, 5))
MASKS = (prefix_mask(4, 3), prefix_mask(5, 2, 5, 4))
HOLES = tuple(torch.where(MASKS[1], x, torch.nan) for x in EPISODES)  # padding may hold anything

check_td_errors = exercise(
    """\
def td_errors(rewards, values, gamma, mask):
    values = torch.where(mask, values, 0.0)
    nothing = torch.zeros_like(values[:, :1])
    next_values = torch.cat([values[:, 1:], nothing], dim=1)  # (B, T)
    return torch.where(mask, rewards + gamma * next_values - values, 0.0)
""",
    "δ_t = r_t + γ·V_(t+1) − V_t, and V = 0 after the last counted token (Schulman et al. 2016, eq. 10)",
    [(*EPISODE, 0.5, MASKS[0]), (*EPISODES, 0.9, MASKS[1])],
    """\
bootstraps from padding: After a row's last counted token there is no next value: the critic's value on
 padding counts as 0.
- values = torch.where(mask, values, 0.0)
+ values = values + 0.0
rolled round: After the last token comes nothing; roll brings the row's first value back there.
- torch.cat([values[:, 1:], nothing], dim=1)
+ values.roll(-1, 1)
the previous value: You took the value before; the TD error looks ahead, to V at t + 1.
- [values[:, 1:], nothing]
+ [nothing, values[:, :-1]]
V of the last token kept: At the last token the next value is 0, not its own value again.
- [values[:, 1:], nothing]
+ [values[:, 1:], values[:, -1:]]
γ on the whole target: γ discounts the next value, not the reward of now.
- rewards + gamma * next_values
+ gamma * (rewards + next_values)
V not subtracted: That is the target r + γV'; the error is what it exceeds V by.
-  - values, 0.0
+ , 0.0
""",
    further=[(NAN, (*HOLES, 0.9, MASKS[1])), *sizes((*EPISODES, 0.9, MASKS[1]))],
)

GIVEN = (*EPISODES, 0.9, 0.7, MASKS[1])

check_compute_gae = exercise(
    """\
def compute_gae(rewards, values, gamma, lam, mask):
    deltas = td_errors(rewards, values, gamma, mask)
    advantages, running = torch.zeros_like(deltas), 0.0
    for t in reversed(range(deltas.shape[1])):
        running = deltas[:, t] + gamma * lam * running
        advantages[:, t] = running
    return advantages, torch.where(mask, advantages + values, 0.0)
""",
    "A_t = δ_t + γλ·A_(t+1) (Schulman et al. 2016, eq. 16); return = A + V",
    [(*EPISODE, 0.5, 0.8, MASKS[0]), GIVEN],
    """\
forwards in time: You add up what came before a token; its advantage comes from what follows: go backwards.
- reversed(range(deltas.shape[1]))
+ range(deltas.shape[1])
own TD error discounted: γλ multiplies the next advantage alone, not the token's own TD error.
- deltas[:, t] + gamma * lam * running
+ gamma * lam * (deltas[:, t] + running)
the loop ends early: Your loop never reaches the first column: range(T − 1, −1, −1) includes 0.
- reversed(range(deltas.shape[1]))
+ reversed(range(1, deltas.shape[1]))
rewards for the returns: The critic's target is A + V, not the rewards.
- advantages + values
+ rewards
whitened: Whitening comes after this step (lesson 03): returns are A + V of the unwhitened advantages.
- return advantages
+ advantages = torch.where(mask, (advantages - advantages[mask].mean()) / advantages[mask].std(), 0.0)
+     return advantages
""",
    results=("advantages", "returns"),
    further=[(NAN, (*HOLES, 0.9, 0.7, MASKS[1])), *sizes(GIVEN)],
    uses={"td_errors": check_td_errors.exercise},
)
