"""Exercises of lesson 11: the implicit reward, the DPO loss, and a whole DPO training, step by step."""

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from helpers.kit.exercise import Seen, floats, noise, prefix_mask, sizes, tensor_of
from helpers.kit.judge import exercise

THREE = (*floats([-3.0, -5.0, -2.0], [-4.0, -4.5, -2.0]), 0.5)

check_implicit_reward = exercise(
    """\
def implicit_reward(logprobs, ref_logprobs, kl_coef):
    return kl_coef * (logprobs - ref_logprobs)
""",
    "r = β·(log π(y|x) − log π_ref(y|x)) (Rafailov et al. 2023, section 4)",
    [THREE, (noise(1, 6) - 12, noise(2, 6) - 12, 0.1)],
    """\
divided by β: You divided by β; multiply: r = β·log-ratio.
- kl_coef * (logprobs - ref_logprobs)
+ (logprobs - ref_logprobs) / kl_coef
difference of probabilities: You subtracted probabilities; subtract their logarithms.
- (logprobs - ref_logprobs)
+ (logprobs.exp() - ref_logprobs.exp())
ratio without the logarithm: You have β·π/π_ref; the reward is β·log (π/π_ref).
- (logprobs - ref_logprobs)
+ (logprobs - ref_logprobs).exp()
""",
    gradient=("logprobs",),
    further=[
        ("log-probs are around −1000", (*floats([-1000.0, -900.0], [-1010.0, -850.0]), 0.1)),
        *sizes(THREE, token=False),
    ],
)

PAIRS = (*(3 * noise(3, 4, 5) - 15), 0.2)

check_dpo_loss = exercise(
    """\
def dpo_loss(chosen, rejected, ref_chosen, ref_rejected, kl_coef):
    margin = kl_coef * ((chosen - ref_chosen) - (rejected - ref_rejected))
    return -torch.nn.functional.logsigmoid(margin).mean()
""",
    "−mean log σ(β·[(log π − log π_ref)(chosen) − (log π − log π_ref)(rejected)]) (Rafailov et al. 2023,"
    " eq. 7)",
    [
        (*floats([-3.0], [-7.0], [-5.0], [-6.0]), 0.5),
        PAIRS,
        (*(3 * noise(4, 4, 3) - 9), 1.5),
    ],
    """\
reference missing: Your margin is of log π alone; take each response's log-ratio to the reference.
- (chosen - ref_chosen) - (rejected - ref_rejected)
+ chosen - rejected
β outside the sigmoid: β belongs inside the sigmoid; outside it only scales the loss.
- kl_coef * ((chosen - ref_chosen) - (rejected - ref_rejected))
-     return -torch
+ (chosen - ref_chosen) - (rejected - ref_rejected)
+     return -kl_coef * torch
no sigmoid: You return −margin, which has no end; the loss is −log σ(margin).
- torch.nn.functional.logsigmoid(margin)
+ margin
""",
    gradient=("chosen", "rejected"),
    further=[
        (
            "margins are some hundred: σ rounds to 0 or exp is infinite, where logsigmoid stays finite",
            (*floats([-300.0, -10.0], [-9.0, -400.0], [-20.0, -15.0], [-80.0, -2.0]), 2.0),
        ),
        *sizes(PAIRS, token=False),
    ],
)


class Table(nn.Module):
    """A language model of a table [V + 1, V]: row v holds the logits after token v, the last is added."""

    def __init__(self, table: Tensor, met: list):
        super().__init__()
        self.table, self.bias = nn.Parameter(table[:-1].clone()), nn.Parameter(table[-1].clone())
        self.met = met  # its weights at each forward, and those of its copies

    def __deepcopy__(self, memo) -> "Table":
        return Table(self.weights, self.met)

    @property
    def weights(self) -> Tensor:
        """All its weights, [V + 1, V], as they are now."""
        return torch.cat([self.table, self.bias[None]]).detach().clone()

    def forward(self, tokens: Tensor) -> SimpleNamespace:
        """Output with `logits` [N, L, V] for tokens [N, L], as a transformers model gives it."""
        now = self.weights
        if not self.met or not torch.equal(now, self.met[-1]):
            self.met.append(now)
        return SimpleNamespace(logits=self.table[tokens] + self.bias)


STAGES = {  # the shape of the tokens → what is looked at
    (2, 3): "first loss, of one pair",
    (2, 4): "first loss, where there is padding",
    (6, 6): "first loss, of several pairs",
}


def training_seen(function, policy, reference, tokens, mask, kl_coef, learning_rate, steps) -> Seen:
    """The loss before the first step; what was trained, the gradients behind the steps, all losses."""
    models = Table(policy, []), Table(reference, [])
    losses = function(*models, tokens, mask, kl_coef, learning_rate, steps)
    tensor_of(losses, (steps,), f"one loss a step, stacked: [{steps}] numbers")
    if torch.equal(policy, reference):
        return {"loss where policy and reference are equal": losses[0].detach()}
    seen = {STAGES.get(tuple(tokens.shape), "first loss"): losses[0].detach()}
    if steps == 1:
        return seen
    seen["training of the reference"] = not torch.equal(models[1].weights, reference)
    met = models[0].met + [policy] * (not models[0].met)
    for k in range(1, steps):
        before, after = (met[min(i, len(met) - 1)] for i in (k - 1, k))
        seen[f"gradient at step {k}"] = (before - after) / learning_rate
    seen["losses"] = losses.detach()
    seen["training of the given policy"] = not torch.equal(models[0].weights, policy)
    return seen | {"graph of the losses": losses.requires_grad}


def table(seed: int, size: int) -> Tensor:
    """Logits after each of `size` tokens, and what is added to all of them."""
    return noise(seed, size + 1, size)


ONE = torch.tensor([[0, 1, 2], [0, 2, 3]]), torch.tensor([[False, True, True]] * 2)
PADDED = torch.tensor([[0, 1, 2, 3], [0, 2, 3, 3]]), prefix_mask(4, 4, 3) & (torch.arange(4) >= 1)
ROWS = torch.tensor([[1, 0, 2, 4, 5, 5], [2, 3, 3, 1, 0, 5], [3, 1, 5, 5, 5, 5],
                     [1, 0, 4, 4, 2, 5], [2, 3, 5, 5, 5, 5], [3, 1, 0, 2, 5, 5]])  # fmt: skip
COUNTS = prefix_mask(6, 5, 6, 3, 6, 3, 5) & (torch.arange(6) >= 2)  # prompts have two tokens
SEVERAL, PAIR = (table(13, 6), table(14, 6), ROWS, COUNTS), (table(11, 4), table(12, 4))

check_train_dpo = exercise(
    """\
from copy import deepcopy


def train_dpo(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
    def sequence_logprobs(model):
        logprobs = model(tokens[:, :-1]).logits.log_softmax(-1)
        taken = logprobs.gather(-1, tokens[:, 1:, None]).squeeze(-1)
        return torch.where(mask[:, 1:], taken, 0.0).sum(dim=1)

    policy = deepcopy(policy)
    optimizer = torch.optim.SGD(policy.parameters(), lr=learning_rate)
    with torch.no_grad():
        ref_chosen, ref_rejected = sequence_logprobs(reference).chunk(2)
    losses = []
    for _ in range(steps):
        chosen, rejected = sequence_logprobs(policy).chunk(2)
        margin = kl_coef * ((chosen - ref_chosen) - (rejected - ref_rejected))
        loss = -torch.nn.functional.logsigmoid(margin).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)
""",
    "margin = β·[(log π − log π_ref)(chosen) − (log π − log π_ref)(rejected)], log π of a response = the"
    " sum over its counted tokens; loss = −mean log σ(margin) (Rafailov et al. 2023)",
    [
        (PAIR[0], PAIR[0], *ONE, 0.5, 0.5, 1),
        (*PAIR, *ONE, 0.5, 0.5, 1),
        (*PAIR, *PADDED, 0.5, 0.5, 1),
        (*SEVERAL, 0.3, 0.5, 4),
    ],
    """\
logits of the token's own position: You read each token's log-prob from the logits at its own position. They
 are a prediction of the next token: take those of the position before.
- model(tokens[:, :-1]).logits
+ model(tokens).logits[:, 1:]
mean over tokens: You averaged over the tokens. log π of a response is the sum; a mean makes β another one
 for each length.
- .sum(dim=1)
+ .sum(dim=1) / mask[:, 1:].sum(dim=1)
rows taken two by two: You took rows 0, 2, … as chosen. The first B rows are the chosen ones, the last B the
 rejected: chunk(2).
- .sum(dim=1)
+ .sum(dim=1)[[*range(0, len(tokens), 2), *range(1, len(tokens), 2)]]
the reference from the policy: Your reference is the policy as it is at each step, so every margin is 0. Take
 the log-probs of `reference`, once.
- ((chosen - ref_chosen) - (rejected - ref_rejected))
+ ((chosen - chosen.detach()) - (rejected - rejected.detach()))
reference missing: Your margin is of log π alone; take log-ratios to the reference.
- ((chosen - ref_chosen) - (rejected - ref_rejected))
+ (chosen - rejected)
""",
    further=[
        (
            "margins are some hundred: σ rounds to 0 or exp is infinite, where logsigmoid stays finite",
            (*SEVERAL, 200.0, 1e-6, 1),
        ),
        ("gradients are long: are they clipped? Leave them", (*SEVERAL, 20.0, 1e-3, 2)),
        (
            "responses have one token: does squeeze() remove an axis too many?",
            (*SEVERAL[:2], ROWS[:, 1:3], COUNTS[:, 1:3], 0.5, 0.5, 1),
        ),
    ],
    observe=training_seen,
    advice="`policy` and `reference` are shown as tables: row v holds the logits after token v, the last"
    " row is added to each. Calculate this small case by hand.",
)
