"""The table of methods: its runs at their smallest, the choice of rates, and what a row says."""

import json

import pytest

from benchmarks import methods
from benchmarks.yardstick import GRID, TUNED_ON, Yardstick, untried
from helpers.scale.trl_groups import grpo_is_here
from helpers.studies.beta_sweep import table
from helpers.tools.files import write_json

BETA, PLAN = 0.3, methods.Plan()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(methods, "FOLDER", tmp_path)
    return tmp_path


def pretend(name: str, rate: float, seed: int, value: float, iterations: int = 100) -> None:
    """A run's file, with this J at its end and all along."""
    config = methods.make_config(name, BETA, seed, rate, iterations)
    final = {"value": value, "value_stderr": 0.01, "score": 1.5, "gold": 1.0, "kl": 2.0}
    history = [{"score": value, "kl": 0.0}] * iterations
    facts = {"final": final, "history": history, "cpu_seconds": 10.0, "peak_mb": 100.0}
    write_json(methods.path_of(name, config), facts)


def test_the_rate_is_chosen_on_a_seed_that_is_not_reported(folder, sweep):
    for rate, value in zip(GRID, (0.2, 0.8, 0.5), strict=True):
        pretend("PPO", rate, TUNED_ON, value)
    best = GRID[1]
    assert methods.tuned("PPO", BETA, PLAN)[0] == best
    assert methods.tuned("RLOO", BETA, PLAN) == (None, {})  # nothing is there yet
    assert TUNED_ON not in PLAN.seeds
    for seed, value in zip(PLAN.seeds, (0.70, 0.72, 0.74), strict=True):
        pretend("PPO", best, seed, value)
    yardstick = Yardstick(sweep, BETA)
    row = methods.row("PPO", yardstick, PLAN)
    assert row["rate"] == best and row["seeds"] == 3
    assert row["end"] == pytest.approx(yardstick.share(0.72))
    assert row["spread"] == pytest.approx(yardstick.share(0.74) - yardstick.share(0.72))
    one = yardstick.estimate(0.72, 0.01).stderr
    assert row["stderr"] == pytest.approx(one / 3**0.5, rel=0.05)
    assert row["along"] == {n: pytest.approx(yardstick.share(0.72)) for n in PLAN.budgets}
    assert methods.missing(["PPO"], PLAN, tuning=False) == []  # no rate is known at the other β
    apart = "GRPO, k3 in the loss, ratio"  # nothing is there of it, and one β is asked
    for name in ("PPO", apart):
        left = methods.missing([name], PLAN, tuning=True)
        assert {config.kl_coef for _, (_, config) in left} == {0.1} and len(left) == 3
    assert methods.row(apart, yardstick, PLAN) is None


@pytest.mark.parametrize(
    ("rates", "values", "left", "best"),
    [
        ((1e-4, 3e-4, 1e-3), (0.2, 0.5, 0.8), (3e-3,), None),  # the best is the largest
        ((1e-4, 3e-4, 1e-3, 3e-3), (0.2, 0.5, 0.8, 0.7), (), 1e-3),
        ((1e-4, 3e-4, 1e-3), (0.8, 0.5, 0.2), (3e-5,), None),  # and the smallest
        ((1e-5, 3e-5, 1e-4, 3e-4, 1e-3), (0.6, 0.9, 0.8, 0.5, 0.2), (), 3e-5),
        ((3e-4,), (0.5,), (1e-4, 1e-3), None),  # the others of the grid come first
        ((1e-4, 3e-4, 1e-3, 3e-3, 1e-2), (0.1, 0.2, 0.3, 0.4, 0.5), (), 1e-2),  # nothing beyond
    ],
)
def test_a_best_rate_at_the_edge_asks_for_the_next(folder, rates, values, left, best):
    for rate, value in zip(rates, values, strict=True):
        pretend("PPO", rate, TUNED_ON, value)
    chosen, ends = methods.tuned("PPO", BETA, PLAN)
    assert chosen == best and ends == dict(zip(rates, values, strict=True))
    assert untried(ends) == left
    asked = methods.missing(["PPO"], PLAN, tuning=True)
    here = [config.learning_rate for _, (_, config) in asked if config.kl_coef == BETA]
    assert tuple(here) == left


def test_our_curve_is_the_mean_around_the_rollout_that_follows_so_many_updates(sweep):
    yardstick = Yardstick(sweep, BETA)
    history = [{"score": float(updates), "kl": 0.0} for updates in range(100)]
    found = yardstick.along(history, (1, 10, 97, 98))
    assert found == {n: pytest.approx(yardstick.share(n)) for n in (10, 97)}
    flat = [{"score": yardstick.reference.mean, "kl": 0.0}] * 100  # a policy that stays where it is
    assert all(abs(share) < 1e-6 for share in yardstick.along(flat, PLAN.budgets).values())


def test_with_one_rate_nothing_is_chosen_and_the_sweep_s_own_runs_are_ppo_s(folder, sweep):
    plan = methods.Plan(betas=(0.1,), seeds=(0, 1, 2, 3), rate=3e-4)
    (shown,) = [row for row in table(sweep) if row["kl_coef"] == 0.1]
    row = methods.row("PPO", Yardstick(sweep, 0.1), plan)
    assert row["seeds"] == 3 and row["end"] == pytest.approx(shown["efficiency"], abs=1e-6)
    assert methods.missing(["PPO"], plan, tuning=True) == []
    (left,) = methods.missing(["PPO"], plan, tuning=False)
    assert left[1][1].seed == 3


@pytest.mark.slow
@pytest.mark.skipif(not grpo_is_here(), reason="trl, an optional extra, is not installed")
@pytest.mark.parametrize("name", [name for name, method in methods.METHODS.items() if method.trl])
def test_a_peer_s_run_is_made_and_kept(folder, monkeypatch, name):
    if not methods.is_here(name):
        pytest.skip("no TRL here that has a PPOTrainer")
    monkeypatch.setattr(methods, "MEASURED", (1,))
    config = methods.make_config(name, BETA, 0, 3e-4, 1)
    methods.make(name, config, evaluated=2)
    saved = json.loads(methods.path_of(name, config).read_text())
    assert [row.get("iteration", 1) for row in saved["history"]] == [1]
    assert {"value", "value_stderr", "gold", "kl"} <= saved["final"].keys()
