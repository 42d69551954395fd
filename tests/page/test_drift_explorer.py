"""The drift explorer in Python: its numbers are the sweep's, runs join it, the wire goes both ways."""

import copy
from dataclasses import replace

import pytest
import torch
from conftest import tiny_models

from helpers.config import RLHFConfig
from helpers.kit import sliders
from helpers.kit.sliders import WIDGET_VIEW
from helpers.page import explorer as drift_module
from helpers.page.explorer import DriftExplorer, explore_drift
from helpers.page.figures import drift_figure
from helpers.state import start_run
from helpers.studies.beta_sweep import Sweep, beta_kind
from helpers.studies.drift import Drift
from helpers.studies.measure import MEASURES, measure, sample_reference
from helpers.studies.runs import WATCHED_PROMPTS, Run, record_run

BETAS, SEEDS, ITERATIONS = (0.0, 0.1, 1.0), (0, 1), 3


def train(kl_coef: float, seed: int, iterations: int = ITERATIONS) -> tuple[Run, object]:
    """A real run of a one-layer model: (run with its last measurement, state)."""
    settings = {"batch_size": 8, "minibatch_size": 8, "response_length": 5, "learning_rate": 1e-2}
    settings |= {"iterations": iterations, "device": "cpu", "normalize_scores": False}
    config = RLHFConfig(kl_coef=kl_coef, seed=seed, **settings)
    state = start_run(config, tiny_models(), prompts=list(WATCHED_PROMPTS), measures=MEASURES)
    run = Run(config, kind=beta_kind(kl_coef))
    for _ in record_run(state, run):
        pass
    run.final, run.responses = measure(state, state.models.actor, 4)
    return run, state


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    runs, kept = [], {}
    for beta in BETAS:
        for seed in SEEDS:
            run, state = train(beta, seed)
            runs.append(run)
            kept[beta] = state
    state = kept[BETAS[-1]]
    reference = sample_reference(state, 120, state.models.actor, runs[-1].responses)
    return Sweep(runs, {"prompts": list(WATCHED_PROMPTS)}, reference)


@pytest.fixture
def explorer(sweep) -> DriftExplorer:
    return DriftExplorer(sweep)


def test_the_optimum_s_next_token_is_the_reference_s_at_a_huge_beta(explorer, sweep):
    probs = explorer.drift.first_token(WATCHED_PROMPTS[2], 1e6)
    plain = torch.bincount(sweep.reference["first_tokens"][2].long(), minlength=len(probs)) / 120
    assert torch.allclose(probs, plain.double(), atol=1e-4)


def test_few_effective_samples_hide_the_optimum(explorer):
    for beta in (0.003, 0.0):
        assert explorer.drift.first_token(WATCHED_PROMPTS[0], beta) is None


def test_every_stop_is_a_trained_policy_and_no_other_is_taken(explorer):
    assert explorer.beta.options == list(BETAS)
    assert explorer.iteration.options == list(range(ITERATIONS + 1))
    for name, wrong in (("beta", 0.32), ("iteration", 99), ("seed", 7), ("prompt", "the")):
        control = getattr(explorer, name)
        stood = control.value
        with pytest.raises(ValueError, match=f"{name}: got {wrong!r}, wants one of"):
            control.value = wrong
        assert control.value == stood


def test_a_run_kept_as_its_history_alone_is_no_choice_of_the_seed(sweep):
    histories = [replace(run, snapshots=[]) if run.config.seed else run for run in sweep.runs]
    explorer = DriftExplorer(replace(sweep, runs=histories))
    assert explorer.seed.options == [0]
    assert explorer.drift.likely_tokens(WATCHED_PROMPTS[0], 12)


def test_a_run_of_yours_joins(explorer, sweep):
    run, _ = train(3.0, 7, iterations=5)
    explorer.add_run(run)
    assert explorer.beta.options[-1] == explorer.beta.value == "yours"
    assert explorer.iteration.options[-1] == 5 and explorer.view.stop.label == "yours: β = 3"
    assert explorer.view.curves["proxy"][-1] == run.final["score"]
    assert explorer.view.optimum.value == sweep.optimum(3.0).value
    explorer.add_run(run)
    assert len(explorer.drift.added) == 1
    explorer.beta.value = 0.1
    assert explorer.view.iteration == ITERATIONS  # as far as that run goes
    other, _ = train(0.3, 8, iterations=2)
    explorer.add_run(other, own_reward=True)
    assert explorer.beta.value == "yours 2" and explorer.view.optimum is None


def test_the_page_is_told_of_the_runs_that_joined(explorer):
    run, _ = train(3.0, 7, iterations=2)
    explorer.add_run(run)
    told = explorer.records.joined()
    (one,) = told["runs"]
    assert (one["key"], one["label"], one["beta"]) == ("yours", "yours: β = 3", 3.0)
    for name, column in (("proxy", "score"), ("gold", "gold"), ("kl", "kl")):
        wanted = [*run.column(column), run.final[column]]
        assert one["run"][name] == pytest.approx(wanted, rel=1e-4, abs=1e-9)
    proxy, gold, numbers, tenths = one["run"]["shots"][-1]["samples"][0][0]
    sample = run.snapshots[-1].samples[WATCHED_PROMPTS[0]][0]
    assert [told["words"][n] for n in numbers] == sample.tokens
    assert [x / 10 for x in tenths] == pytest.approx(sample.drift, abs=0.0501)
    assert one["optimum"]["value"] == pytest.approx(explorer.view.optimum.value, rel=1e-4)


def test_a_run_is_followed_while_it_grows_where_its_end_is_looked_at(explorer):
    run, _ = train(0.3, 7, iterations=6)
    whole, run.final = run.history, {}
    run.history = whole[:5]
    explorer.add_run(run)
    assert explorer.iteration.value == 4
    run.history = whole
    explorer.add_run(run)
    assert (explorer.beta.value, explorer.iteration.value) == ("yours", 5)
    explorer.beta.value, explorer.iteration.value = 0.1, 2
    explorer.add_run(run)
    assert (explorer.beta.value, explorer.iteration.value) == (0.1, 2)


def test_a_run_stopped_early_joins_with_what_there_is(explorer):
    run, _ = train(0.3, 7, iterations=3)
    run.final, run.history = {}, run.history[:2]
    for record in run.history:
        record.pop("gold")
    explorer.add_run(run)
    assert explorer.records.joined()["runs"][0]["run"]["gold"] == [None, None]
    with pytest.raises(ValueError, match="no iteration"):
        explorer.add_run(Run(run.config))


def test_a_prompt_the_run_was_not_asked(explorer):
    run, _ = train(0.3, 7, iterations=1)
    for shot in run.snapshots:
        del shot.samples[WATCHED_PROMPTS[1]], shot.next_logprobs[WATCHED_PROMPTS[1]]
    explorer.add_run(run)
    shot = explorer.records.joined()["runs"][0]["run"]["shots"][0]
    assert shot["samples"][1] == [] and shot["next"][1] is None


def test_the_frontier_lies_above_every_policy(sweep):
    drift = Drift(sweep)
    frontier = drift.frontier()
    kl, score = ([getattr(best, name) for best in frontier] for name in ("kl", "score"))
    assert kl == sorted(kl) and score == sorted(score) and len(frontier) > 10
    for best in frontier:  # a line of slope β touches it from above
        for x, y in zip(kl, score, strict=True):
            assert best.value + best.kl_coef * x >= y - 0.02


# ---- what a cell shows ----


@pytest.fixture
def shown(monkeypatch) -> list:
    """What is displayed, as a list that grows."""
    found = []
    for module in (drift_module, sliders):
        monkeypatch.setattr(module, "display", lambda thing, **_: found.append(thing))
    return found


def test_the_page_is_shown_as_plain_html_first_then_live(explorer, shown):
    pytest.importorskip("anywidget")
    explorer._ipython_display_()
    plain, live = shown
    assert plain.data.startswith(f'<iframe id="{explorer.live.plain}"')
    assert "<img alt=" in plain.data and len(plain.data) < 150_000
    assert live[WIDGET_VIEW]["model_id"] == explorer.live.model_id


def test_not_pictured_the_live_page_is_shown_over_a_still(sweep, shown):
    pytest.importorskip("anywidget")
    explore_drift(sweep, pictured=False)._ipython_display_()
    assert len(shown) == 1 and WIDGET_VIEW in shown[0] and len(shown[0]["image/png"]) < 30_000


def test_where_anywidget_is_missing_the_plain_page_is_shown(sweep, shown, monkeypatch):
    monkeypatch.setattr(drift_module.importlib.util, "find_spec", lambda name: None)
    explorer = explore_drift(sweep, pictured=False)
    explorer._ipython_display_()
    assert len(shown) == 1 and shown[0].data.startswith("<iframe")
    explorer.beta.value = 1.0  # Python goes on without it
    assert explorer.view.stop.kl_coef == 1.0


@pytest.fixture
def wired(explorer, shown) -> DriftExplorer:
    """An explorer that has been displayed."""
    pytest.importorskip("anywidget")
    explorer._ipython_display_()
    return explorer


def test_a_move_in_python_is_told_to_the_page_and_nothing_before_it_so_that_it_plays(wired):
    assert wired.live.view == {} and wired.live.joined["runs"] == []
    wired.beta.value = 1.0
    assert wired.live.view == {"beta": 2, "seed": 0, "prompt": 0, "iteration": ITERATIONS}
    wired.prompt.value = WATCHED_PROMPTS[3]
    assert wired.live.view["prompt"] == 3


def test_a_move_on_the_page_is_heard_in_python_and_not_told_back(wired):
    heard, told = [], []
    wired.beta.observe(lambda change: heard.append(change["new"]), names="value")
    wired.live.observe(lambda change: told.append(change["new"]), names="view")
    moved = {"beta": 1, "seed": 1, "prompt": 2, "iteration": 1}
    wired.live.view = moved
    assert heard == [0.1] and told == [moved]
    now = [getattr(wired, name).value for name in drift_module.NAMES]
    assert now == [0.1, 1, WATCHED_PROMPTS[2], 1]


def test_a_place_that_there_is_not_is_not_gone_to(wired):
    wired.live.view = {"beta": 99, "seed": -1, "prompt": "0", "iteration": 2.5, "live": 0}
    assert [getattr(wired, name).place for name in drift_module.NAMES] == [0, 0, 0, ITERATIONS]


def test_a_run_that_joins_is_told_before_the_page_goes_there(wired):
    order = []
    wired.live.observe(lambda change: order.append(change["name"]), names=["joined", "view"])
    wired.add_run(train(3.0, 7, iterations=2)[0])
    assert order == ["joined", "view"] and wired.live.view["beta"] == len(BETAS)
    assert len(wired.live.joined["runs"]) == 1


def test_the_gold_of_a_collapsed_policy_does_not_flatten_the_still_picture(sweep):
    fallen = copy.deepcopy(sweep)
    fallen.runs[0].history[-1]["gold"] = -70.0
    for some, scale in ((sweep, "linear"), (fallen, "symlog")):
        drift = Drift(some)
        view = drift.view(drift.stops[0], ITERATIONS, 0)
        (axes,) = drift_figure(drift, view).axes
        assert axes.get_yscale() == scale
