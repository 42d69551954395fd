"""Tests of the tests: each well-known bug, planted in a copy of the helpers, makes them fail."""

import shutil

import pytest
from forked_tests import run_pytest

from helpers.tools.files import ROOT

BUGS = {  # name: (file, right, wrong, tests that must notice)
    "returns from whitened advantages": (
        "gae.py",
        "return advantages, advantages + values",
        "white = (advantages - advantages.mean()) / (advantages.std() + 1e-8)\n"
        "    return advantages, white + values",
        "test_gae.py",
    ),
    "whitened before the returns are formed, in the loop": (
        "steps.py",
        "        advantages = whiten_advantages(advantages, mask)\n",
        "        advantages = whiten_advantages(advantages, mask)\n"
        "        returns = advantages + values\n",
        "test_loop.py::test_returns_are_formed_before_whitening",
    ),
    "KL sign reversed": (
        "kl.py",
        "log_ratio = logprobs - ref_logprobs\n    if",
        "log_ratio = ref_logprobs - logprobs\n    if",
        "test_kl.py",
    ),
    "KL added to the reward": (
        "kl.py",
        "torch.where(mask, -kl_coef * kl, 0.0)",
        "torch.where(mask, kl_coef * kl, 0.0)",
        "test_kl.py",
    ),
    "stop token masked out": (
        "rollouts.py",
        "return is_eos.cumsum(dim=1) - is_eos == 0",
        "return is_eos.cumsum(dim=1) == 0",
        "test_rollouts.py",
    ),
    "max for min in the clip": (
        "ppo.py",
        "torch.minimum(gain, clipped_gain)",
        "torch.maximum(gain, clipped_gain)",
        "test_ppo.py",
    ),
    "score on the last column, pad or not": (
        "kl.py",
        "last = last_counted(mask).unsqueeze(1)",
        "last = torch.full_like(last_counted(mask), mask.shape[1] - 1).unsqueeze(1)",
        "test_kl.py",
    ),
    "statistics over the padding": (
        "whitening.py",
        "return torch.where(mask, x, 0.0).sum() / mask.sum()",
        "return torch.where(mask, x, 0.0).mean()",
        "test_whitening.py",
    ),
    "log-probs one position late": (
        "rollouts.py",
        "logits = logits[:, -length:].float()",
        "logits = logits[:, -length:].float().roll(1, dims=1)",
        "test_rollouts.py",
    ),
    "reference trained too": (
        "models.py",
        "return freeze(copy.deepcopy(actor))",
        "return actor",
        "test_loop.py::test_the_reference_is_not_trained_and_the_actor_is",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(tmp_path, name):
    file, right, wrong, tests = BUGS[name]
    for folder in ("helpers", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / "helpers" / file
    source = path.read_text()
    assert source.count(right) == 1, f"{file} no longer holds {right!r}"
    path.write_text(source.replace(right, wrong))
    status, printed = run_pytest(tmp_path, "-x", f"tests/algorithm/{tests}")
    assert status == 1, printed[-2000:]  # 1: tests ran, and some failed
    assert "FAILURES" in printed
