"""The study of the clip: what its runs differ in, what its two wrong losses are, what was recorded."""

from dataclasses import replace

import pytest
import torch

from helpers import ppo
from helpers.data import DATA
from helpers.lessons.ppo_update.study import KINDS, NO_CLIP, PLANTED, ClipOptions
from helpers.studies.study import load_study


def test_runs_differ_in_the_clip_alone_and_a_rollout_is_used_for_as_many_steps_as_named():
    jobs = {job.kind: job.config for job in ClipOptions(seeds=[0]).plan()}
    for kind in ("steps_4", "steps_32", "steps_32_slow"):
        config, without = jobs[kind], jobs[f"{kind}_no_clip"]
        assert replace(without, cliprange=config.cliprange) == config != without
        steps = config.num_ppo_epochs * config.batch_size // config.minibatch_size
        assert steps == int(kind.split("_")[1])
    assert jobs["steps_32"] == jobs["steps_32_max"] == jobs["steps_32_no_ratio"]


def test_what_each_loss_climbs():
    """Without the clip ρA, however large ρ; without the ratio A·log π, whatever the old policy."""
    old, advantages = torch.tensor([[-9.0, -1.0]]), torch.tensor([[2.0, -3.0]])
    mask, leaf = torch.ones(1, 2).bool(), torch.tensor([[-0.5, -8.0]], requires_grad=True)
    rho = (leaf.detach() - old).exp()

    def uphill(**settings):
        loss = ppo.policy_loss(leaf, old, advantages, mask, settings.get("cliprange", 0.2))[0]
        return -2 * torch.autograd.grad(loss, leaf)[0]

    assert torch.allclose(uphill(**NO_CLIP), rho * advantages)
    assert torch.equal(uphill(), torch.zeros(1, 2))  # both have gone too far the way A points
    with PLANTED["steps_32_no_ratio"].in_effect():
        assert torch.allclose(uphill(), advantages)
    with PLANTED["steps_32_max"].in_effect():
        assert torch.allclose(uphill(), rho * advantages)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_at_32_steps_the_right_loss_wins_on_the_objective(seed):
    study = load_study(DATA / "clip")
    ends = {kind: study.run(kind, seed).final for kind in KINDS}
    for final in ends.values():
        assert final["value"] == pytest.approx(final["score"] - 0.1 * final["kl"], abs=1e-3)
    for wrong in ("no_clip", "max", "no_ratio"):
        assert ends["steps_32"]["value"] > ends[f"steps_32_{wrong}"]["value"] + 0.5
