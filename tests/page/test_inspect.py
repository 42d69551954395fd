"""The token inspector: each token's term of the loss, and its derivative, are those of helpers' losses."""

import pytest
import torch

from helpers.config import RLHFConfig
from helpers.groups import group_advantages, loss_options, sequence_log_ratio
from helpers.kl import shape_rewards
from helpers.page.drift_page import ENGINE
from helpers.ppo import policy_loss
from helpers.whitening import masked_mean, whiten_advantages
from tests.page.javascript import run
from tests.page.test_train import as_lists
from tests.strategies import prefix_mask

GROUP, BETA = 4, 0.2
GRPO = {"method": "grpo", "responses_per_prompt": GROUP}
BY_RESPONSE = GRPO | {"loss_aggregation": "response"}
CONFIGS = {
    "PPO's clip": {"method": "rloo", "responses_per_prompt": GROUP},
    "GRPO": BY_RESPONSE,
    "DAPO": GRPO | {"cliprange_high": 0.28},
    "GSPO": BY_RESPONSE | {"ratio_level": "sequence", "cliprange": 3e-4, "cliprange_high": 4e-4},
}
TERMS = """({ responses, klCoef, group }) => responses.map(({ tokens }, at) =>
  tokens.map((_, t) => tokenTerms(responses, klCoef, group, at, t)))"""


class Recorded:
    """A random rollout: log-probs when sampled, now, of the reference, [B, T] in float64; scores [B]."""

    def __init__(self, move: float):
        draw = torch.Generator().manual_seed(5)
        lengths = torch.randint(1, 10, (12,), generator=draw)
        self.mask = prefix_mask(lengths.tolist(), 9)
        self.old, self.ref = (-3 * torch.rand(2, 12, 9, generator=draw).double()).unbind()
        self.new = self.old + move * torch.randn(12, 9, generator=draw)
        self.scores = torch.randn(12, generator=draw).double()

    def advantages(self, config):
        """Of each token, [B, T], as `helpers.steps` has them."""
        rewards = shape_rewards(self.scores, self.old, self.ref, self.mask, BETA)
        found = group_advantages(rewards, self.mask, config)
        return found if config.method == "grpo" else whiten_advantages(found, self.mask)

    def written(self) -> dict:
        """As the page has it."""
        rloo = self.advantages(RLHFConfig(**CONFIGS["PPO's clip"]))[:, 0]
        kl = torch.where(self.mask, self.old - self.ref, 0.0).sum(dim=1)
        old, new = (as_lists(x, self.mask) for x in (self.old, self.new))
        tokens = [[0] * len(row) for row in old]
        columns = [tokens, old, new, rloo.tolist(), self.scores.tolist(), kl.tolist()]
        names = ("tokens", "logprobs", "newLogprobs", "advantage", "score", "kl")
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return {"responses": rows, "klCoef": BETA, "group": GROUP}


def wanted(recorded, config):
    """(terms, slopes, ratios), all [B, T], of helpers' clipped loss."""
    mask, old = recorded.mask, recorded.old
    new = recorded.new.clone().requires_grad_()
    options = loss_options(config)
    mean = options.pop("mean", masked_mean)
    by_response = config.ratio_level == "sequence"
    compared = old + sequence_log_ratio(new, old, mask) if by_response else new
    given = compared, old, recorded.advantages(config), mask, config.cliprange
    loss, stats = policy_loss(*given, **options, mean=mean)
    loss.backward()
    each, _ = policy_loss(*given, **options, mean=lambda x, _: x)
    weights = torch.ones_like(new).requires_grad_()
    mean(weights, mask).backward()  # how much of the mean each token is
    terms = (each * weights.grad).detach()
    assert terms[mask].sum().item() == pytest.approx(loss.item(), abs=1e-12)
    return terms, new.grad, stats["ratio"]


@pytest.mark.parametrize("move", [0.0, 0.3])
def test_terms_and_slopes_are_those_of_helpers_losses(move):
    recorded = Recorded(move)
    new = recorded.new.clone().requires_grad_()
    advantages = recorded.advantages(RLHFConfig(**CONFIGS["PPO's clip"]))
    reinforce = -masked_mean(advantages * new, recorded.mask)
    reinforce.backward()
    shown = sum(run(ENGINE, TERMS, recorded.written()), [])
    of = lambda at, key: torch.tensor([row[at][key] for row in shown]).double()  # noqa: E731
    assert {row[0]["name"] for row in shown} == {"REINFORCE"}
    assert of(0, "term").sum().item() == pytest.approx(reinforce.item(), abs=1e-6)
    assert (of(0, "slope") - new.grad[recorded.mask]).abs().max() < 1e-7
    for at, (name, settings) in enumerate(CONFIGS.items(), start=1):
        config = RLHFConfig(**settings)
        terms, slopes, ratios = (x[recorded.mask] for x in wanted(recorded, config))
        assert {row[at]["name"] for row in shown} == {name}
        assert (of(at, "term") - terms).abs().max() < 1e-5 / len(terms), name
        assert (of(at, "slope") - slopes).abs().max() < 1e-5 / len(terms), name
        assert (of(at, "ratio") - ratios).abs().max() < 1e-5, name
        clipped = of(at, "clipped").bool()
        assert torch.equal(clipped, (slopes == 0) & (of(at, "advantage") != 0)), name
        assert clipped.any() == (move > 0), name
