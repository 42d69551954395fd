"""The exercise of lessons 01 and 06: log-probs of tokens that are there, in one forward of a policy."""

from contextlib import suppress

import torch
from torch import Tensor, nn

from helpers.kit.exercise import Exercise, Seen, counted_only, gradients
from helpers.kit.model_calls import check_call, recorded_calls
from helpers.kit.recorded import recorded


def probe(temperature: float, rows: slice = slice(0, 6, 2), tokens: int = 18) -> tuple:
    """A policy and some recorded texts, whose responses are cut to this many tokens."""
    r = recorded()
    end = r.ids.shape[1] - r.length + tokens
    return r.shallow.actor, r.ids[rows, :end], r.mask[rows, :end], tokens, temperature


def observe(function, policy: nn.Module, ids, mask, length: int, temperature: float) -> Seen:
    """The log-probs where they count, and the gradient of the policy of a weighted sum of them."""
    x = function(policy, ids, mask, length, temperature)
    counted = mask[:, -length:]
    seen = {"log-probs": counted_only(x, counted)}
    if isinstance(x, Tensor) and x.shape == counted.shape:
        weights = torch.linspace(-1, 1, counted.numel()).view_as(counted)
        loss = torch.where(counted, weights * x, 0.0).sum()
        found = gradients({"loss": loss}, dict(enumerate(policy.parameters())))
        seen["gradient of the policy"] = torch.cat([g.flatten() for g in found.values()])
        seen["log-probs"] = seen["log-probs"].detach()
    return seen


def cause(function, model: nn.Module, ids, mask, *others, whose: str = "the policy") -> None:
    """Wrong: the model is given another mask or other positions."""
    with recorded_calls(model) as calls, suppress(Exception):  # its numbers were judged already
        function(model, ids, mask, *others)
    for call in calls[-1:]:
        check_call(call, mask, whose)


FORWARD_LOGPROBS = Exercise(
    """\
def forward_logprobs(policy, ids, mask, length, temperature):
    positions = mask.cumsum(1) - mask.long()
    logits = policy(ids, attention_mask=mask, position_ids=positions).logits
    logprobs = (logits[:, -length - 1 : -1] / temperature).log_softmax(-1)
    return logprobs.gather(-1, ids[:, -length:].unsqueeze(-1)).squeeze(-1)
""",
    "log softmax(logits / temperature) at each token of the response, read at the token before",
    lambda: [probe(0.8), probe(0.1)],
    """\
the next token's logits: You read the logits of each token's own column, which predict the token after it;
 take those of the column before, [:, -length - 1 : -1].
- -length - 1 : -1
+ -length:
logits one column too early: You read the logits two columns before each token; take those of the column
 before, [:, -length - 1 : -1].
- -length - 1 : -1
+ -length - 2 : -2
the tokens before: Your logits are right, and you look up the tokens one column too early: take
 ids[:, -length:].
- ids[:, -length:
+ ids[:, -length - 1 : -1
no temperature: `temperature` has no effect: divide the logits by it, before the softmax.
- (logits[:, -length - 1 : -1] / temperature)
+ logits[:, -length - 1 : -1]
divided after the softmax: You divide log-probs by the temperature; divide the logits, before the softmax.
-  / temperature).log_softmax(-1)
+ ).log_softmax(-1) / temperature
probabilities, not log-probs: You return probabilities; PPO needs their logarithms.
- .log_softmax(-1)
+ .softmax(-1)
logits, not log-probs: You return logits; log_softmax(-1) over the vocabulary is missing.
- .log_softmax(-1)
+
softmax over time: Your softmax is along dim=1, the positions; the vocabulary is dim=-1.
- .log_softmax(-1)
+ .log_softmax(1)
""",
    results=("log-probs", "gradient of the policy"),
    observe=observe,
    cause=cause,
    advice="Which column of the logits predicts which token? Print both for one row.",
    further=lambda: [
        ("there is one row", probe(0.8, slice(3, 4))),
        (
            "one response has one token: squeeze() drops its axis, squeeze(-1) does not",
            probe(0.8, slice(0, 1), 1),
        ),
    ],
)
