"""The shipped sweep: whole, made as it says, and its table recomputed from the responses behind it."""

import re
import shutil
from itertools import pairwise
from statistics import fmean

import pytest
import torch

from helpers.config import RLHFConfig
from helpers.lessons.kl_beta import study
from helpers.state import start_run
from helpers.studies import beta_sweep
from helpers.studies.runs import WATCHED_PROMPTS, take_snapshot
from helpers.studies.study import STUDY
from helpers.theory.optimum import optimal_value, policy_value
from helpers.tools.files import ROOT, FileProblem


@pytest.fixture(scope="module")
def rows(sweep):
    return {row["kl_coef"]: row for row in beta_sweep.table(sweep)}


def whole(sweep):
    """The runs of the seed that is kept whole."""
    runs = [run for run in sweep.runs if run.config.seed == beta_sweep.WHOLE_RUN_SEED]
    assert len(runs) == len(sweep.betas) and sweep.shown_seeds == [beta_sweep.WHOLE_RUN_SEED]
    return runs


def test_every_whole_run_kept_its_snapshots_and_the_responses_that_its_values_are_of(sweep):
    for run in whole(sweep):
        assert run.snapshots[0].iteration == 0
        assert run.snapshots[-1].iteration == run.config.iterations
        assert all(set(shot.samples) == set(WATCHED_PROMPTS) for shot in run.snapshots)
        scores, kl = run.responses["score"], run.responses["kl"]
        assert scores.shape == kl.shape and scores.numel() == run.final["responses"] >= 20_000
        value = policy_value(scores, kl, run.config.kl_coef)
        assert run.final["value"] == pytest.approx(value.mean, abs=1e-4)
        assert run.final["value_stderr"] == pytest.approx(value.stderr, rel=1e-3)


def test_kl_falls_with_beta_and_training_reaches_nine_tenths_of_what_can_be_had(rows):
    kl = [rows[beta]["kl"] for beta in sorted(rows)]
    assert all(later < before for before, later in pairwise(kl))
    assert min(rows[beta]["efficiency"] for beta in (0.1, 0.2, 0.3, 0.5, 1.0)) >= 0.90


def test_nobody_beats_the_optimum(sweep):
    for beta in sweep.betas[1:]:
        best = sweep.optimum(beta)
        for run in sweep.runs:
            if best is not None and run.config.kl_coef == beta:
                noise = 4 * (best.stderr**2 + run.final["value_stderr"] ** 2) ** 0.5
                assert run.final["value"] < best.value + noise


@pytest.mark.parametrize("beta", (0.1, 0.2, 0.5, 1.0))
def test_two_proposals_find_the_same_optimum(sweep, beta):
    """From the mixture, and from the responses with which the policy trained at this β was measured."""
    responses = sweep.run(beta, beta_sweep.WHOLE_RUN_SEED).responses
    one = sweep.optimum(beta)
    other = optimal_value(responses["score"], beta, 1.0, responses["kl"][None])
    noise = (one.stderr**2 + other.stderr**2) ** 0.5
    assert one.value == pytest.approx(other.value, abs=4 * noise + 0.001)


def test_the_optimum_is_known_down_to_beta_0_1(sweep):
    known = [best for best in map(sweep.optimum, sweep.betas) if best is not None]
    assert [best.kl_coef for best in known] == [beta for beta in sweep.betas if beta >= 0.1]
    assert min(float(best.ess.min()) for best in known) >= beta_sweep.MIN_EFFECTIVE_SAMPLES
    assert max(best.stderr for best in known) < 0.003


def test_without_kl_gold_falls_from_its_peak_while_the_proxy_rises(sweep):
    """Goodhart's law, at β = 0, on every seed: means over ten iterations against the best ten."""
    for seed in sweep.seeds:
        run = sweep.run(0.0, seed)
        columns = torch.tensor([run.column("gold"), run.column("score")])
        gold, score = columns.unfold(1, 10, 5).mean(-1)
        assert gold.max() - gold[-1] > 0.5
        assert score[-1] > score[gold.argmax()]


def test_a_shipped_policy_is_the_one_the_run_ended_with(sweep):
    state = start_run(RLHFConfig(kl_coef=0.3, device="cpu"))
    beta_sweep.load_policy(state.models.actor, 0.3)
    now, kept = take_snapshot(state), sweep.run(0.3, 0).snapshots[-1]
    for prompt in WATCHED_PROMPTS:
        gap = now.next_logprobs[prompt].exp() - kept.next_logprobs[prompt].exp()
        assert gap.abs().max() < 2e-3  # half precision on disk


def test_an_incomplete_sweep_is_refused_in_one_sentence(sweep, tmp_path):
    with pytest.raises(FileProblem, match="missing"):
        beta_sweep.load_sweep(tmp_path)
    shutil.copy(beta_sweep.FOLDER / STUDY, tmp_path)
    with pytest.raises(FileProblem, match="seed_0.* is missing"):
        beta_sweep.load_sweep(tmp_path)
    for run in whole(sweep):
        shutil.copytree(beta_sweep.FOLDER / run.label, tmp_path / run.label)
    with pytest.raises(FileProblem, match="reference.safetensors is missing"):
        beta_sweep.load_sweep(tmp_path)


def test_the_table_of_the_readme_is_the_sweep_s(sweep, rows):
    """Each figure as it is rounded there; a dash where there is none."""
    text = (ROOT / "README.md").read_text("utf-8")
    shown = re.findall(r"^\| ([\d.]+) \| ((?:[−–\d.]+ \| ){6}[−–\d.]+) \|$", text, re.M)
    names = ("score", "gold", "broken", "kl", "value", "optimal_value", "efficiency")
    assert len(shown) >= 5
    for beta, cells in shown:
        row = rows[float(beta)]
        for name, cell in zip(names, cells.split(" | "), strict=True):
            digits = len(cell.partition(".")[2])
            found = "–" if row[name] is None else f"{row[name]:.{digits}f}".replace("-", "−")
            assert found == cell, (beta, name)


@pytest.mark.parametrize("kind", [j.kind for j in study.KLControlOptions().plan()])
def test_the_adaptive_beta_holds_its_target(kind):
    run = study.load_kl_control().run(kind)
    assert fmean(run.column("kl")[-33:]) == pytest.approx(run.config.kl_target, rel=0.2)
