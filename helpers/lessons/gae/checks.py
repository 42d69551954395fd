"""Exercises of lesson 02: rewards per token, TD errors, and the walk back from them to advantages."""

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
LARGE = (*(40 * x for x in BATCH[:3]), BATCH[3], 2.5)

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
    "r_t = −β·(log π − log π_ref), plus the score at the last counted token (Ziegler et al. 2019, eq. 2)",
    [SHORT, BATCH],
    """\
score on the last column: You put the score in the last column, which is padding in rows that end early.
- mask.sum(1) - 1
+ torch.full_like(mask.sum(1), mask.shape[1] - 1)
score replaces the KL penalty: The last token has its KL penalty as well: add the score to it.
- rewards[rows, last] += scores
+ rewards[rows, last] = scores
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
        ("β is 0", (*BATCH[:-1], 0.0)),
        ("scores and KL are large", LARGE),
        *sizes(BATCH),
    ],
)

EPISODE = (floats([1.0, 0.0, 2.0, 7.0]), floats([0.5, 1.5, 1.0, 3.0]))
EPISODES = (noise(3, 3, 5), noise(4, 3, 5))
MASKS = (prefix_mask(4, 3), prefix_mask(5, 2, 5, 4))
HOLES = tuple(torch.where(MASKS[1], x, torch.nan) for x in EPISODES)  # padding may hold anything
FAR = tuple(100 * noise(seed, 3, 5).round(decimals=2) for seed in (5, 6))
LONG = noise(5, 1, 200), noise(6, 1, 200), 0.5, 0.2, prefix_mask(200, 199)

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
γ on the whole target: γ discounts the next value, not the reward of now.
- rewards + gamma * next_values
+ gamma * (rewards + next_values)
""",
    further=[
        ("padding holds NaN", (*HOLES, 0.9, MASKS[1])),
        ("γ is 0", (*EPISODES, 0.0, MASKS[1])),
        ("rewards and values are large", (*FAR, 0.5, MASKS[1])),
        *sizes((*EPISODES, 0.9, MASKS[1])),
    ],
)

GIVEN = (*EPISODES, 0.9, 0.7, MASKS[1])
EDGES = [
    ("padding holds NaN", (*HOLES, 0.9, 0.7, MASKS[1])),
    ("λ is 0", (*EPISODES, 0.9, 0.0, MASKS[1])),
    ("γ is 0", (*EPISODES, 0.0, 0.7, MASKS[1])),
    ("γ and λ are 1", (*EPISODES, 1.0, 1.0, MASKS[1])),
    *sizes(GIVEN),
    ("a row has 200 tokens", LONG),
    ("rewards and values are large", (*FAR, 0.5, 0.5, MASKS[1])),
]

check_credit = exercise(
    """\
def credit(rewards, values, gamma, lam, mask):
    rewards, values = torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)
    next_values = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    deltas = torch.where(mask, rewards + gamma * next_values - values, 0.0)

    def walk(x, decay):
        running, columns = torch.zeros_like(x[:, 0]), []
        for t in reversed(range(x.shape[1])):
            running = x[:, t] + decay * running
            columns.append(running)
        return torch.where(mask, torch.stack(columns[::-1], dim=1), 0.0)

    advantages = walk(deltas, gamma * lam)
    returns = torch.where(mask, advantages + values, 0.0)
    return deltas, advantages, returns, walk(rewards, gamma)
""",
    "δ = r + γV' − V; A_t = δ_t + γλ·A_(t+1) (Schulman et al. 2016, eq. 16); return = A + V; rewards to"
    " go G_t = r_t + γ·G_(t+1)",
    [(*EPISODE, 0.5, 0.8, MASKS[0]), GIVEN],
    """\
bootstraps from padding: After a row's last counted token there is no next value: the critic's value on
 padding counts as 0.
- torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)
+ torch.where(mask, rewards, 0.0), values
columns not turned round: You walked backwards and kept the columns in that order: turn the list round
 before you stack it.
- columns[::-1]
+ columns
rewards for the returns: The critic's target is A + V, not the rewards to go.
- torch.where(mask, advantages + values, 0.0)
+ walk(rewards, gamma)
λ in the rewards to go: Rewards to go have no critic and no λ in them: they decay by γ alone.
- walk(rewards, gamma)
+ walk(rewards, gamma * lam)
""",
    results=("TD errors δ", "advantages", "returns", "rewards to go"),
    further=EDGES,
)

check_compute_gae = exercise(
    """\
def compute_gae(rewards, values, gamma, lam, mask):
    rewards, values = torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)
    advantages, following, running = torch.zeros_like(rewards), 0.0, 0.0
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * following - values[:, t]
        running = delta + gamma * lam * running
        advantages[:, t] = running
        following = values[:, t]
    advantages = torch.where(mask, advantages, 0.0)
    return advantages, torch.where(mask, advantages + values, 0.0)
""",
    "A_t = δ_t + γλ·A_(t+1), δ_t = r_t + γ·V_(t+1) − V_t (Schulman et al. 2016, eq. 16)",
    [(*EPISODE, 0.5, 0.8, MASKS[0]), GIVEN],
    """\
bootstraps from padding: After a row's last counted token there is no next value: the critic's value on
 padding counts as 0.
- torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)
+ torch.where(mask, rewards, 0.0), values
rewards for the returns: The critic's target is A + V, not the rewards alone.
- advantages + values
+ rewards
advantages for TD errors: The error is built from the reward, not from the sum so far.
- following = values[:, t]
+ following = running
""",
    results=("advantages", "returns"),
    further=EDGES,
)
