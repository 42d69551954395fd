"""The drift explorer: what it shows is the sweep's own, it keeps its figures, and it escapes all text."""

import copy
import gc
import math
from dataclasses import replace

import pytest
import torch
from conftest import tiny_models
from matplotlib.figure import Figure

from helpers.config import RLHFConfig
from helpers.experiments.beta_sweep import Sweep
from helpers.experiments.drift import Drift, first_token_optimum, run_curves
from helpers.experiments.measure import MEASURES, measure, sample_reference
from helpers.experiments.runs import WATCHED_PROMPTS, Run, Sample, record_run
from helpers.plots.drift import Curves
from helpers.state import start_run
from helpers.tools.files import ROOT
from helpers.widgets.drift import DriftExplorer, chip, drift_samples_html, token_colour

BETAS, SEEDS, ITERATIONS = (0.0, 0.1, 1.0), (0, 1), 3


def train(kl_coef: float, seed: int, iterations: int = ITERATIONS) -> tuple[Run, object]:
    """A real run of a one-layer model: (run with its last measurement, state)."""
    settings = {"batch_size": 8, "minibatch_size": 8, "response_length": 5, "learning_rate": 1e-2}
    settings |= {"iterations": iterations, "device": "cpu", "normalize_scores": False}
    config = RLHFConfig(kl_coef=kl_coef, seed=seed, **settings)
    state = start_run(config, tiny_models(), prompts=list(WATCHED_PROMPTS), measures=MEASURES)
    run = Run(config)
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
    reference = sample_reference(kept[0.1], 120, bar=False)
    return Sweep(runs, reference, list(WATCHED_PROMPTS))


@pytest.fixture
def explorer(sweep) -> DriftExplorer:
    return DriftExplorer(sweep)


def test_at_the_end_it_shows_the_sweep_s_last_measurement(explorer, sweep):
    for beta in BETAS:
        for seed in SEEDS:
            explorer.beta.value, explorer.seed.value = beta, seed
            final, now = sweep.run(beta, seed).final, explorer.values
            assert (now["beta"], now["seed"], now["iteration"]) == (beta, seed, ITERATIONS)
            assert (now["proxy"], now["gold"], now["kl"]) == (
                final["score"],
                final["gold"],
                final["kl"],
            )
            assert now["J"] == pytest.approx(final["value"], abs=1e-5)
            assert f"proxy {final['score']:.3f}" in explorer.status.value


def test_before_the_end_it_shows_the_rollout_the_policy_then_wrote(explorer, sweep):
    explorer.beta.value, explorer.iteration.value = 0.1, 2
    record = sweep.run(0.1, 0).history[2]  # the third rollout is that of the policy after 2 updates
    assert record["iteration"] == 3
    for name, column in (("proxy", "score"), ("entropy", "entropy"), ("length", "response_length")):
        assert explorer.values[name] == record[column]
    explorer.iteration.value = 0
    assert abs(explorer.values["kl"]) < 1e-4  # the reference itself
    assert torch.allclose(explorer.view.policy, explorer.view.reference, atol=1e-6)


def test_the_exact_answer_is_the_sweep_s(explorer, sweep):
    explorer.beta.value = 1.0
    best = sweep.optimum(1.0)
    assert explorer.values["J_star"] == best.value
    run = sweep.run(1.0, 0)
    assert explorer.values["efficiency"] == pytest.approx(
        sweep.efficiency(run, best).mean, abs=1e-4
    )
    explorer.beta.value = 0.0
    assert explorer.values["J_star"] is None and "no optimum" in explorer.status.value


def test_the_optimum_s_next_token_is_the_reference_s_at_a_huge_beta(sweep):
    size = len(sweep.runs[0].snapshots[0].next_logprobs[WATCHED_PROMPTS[0]])
    probs, ess = first_token_optimum(sweep, WATCHED_PROMPTS[2], 1e6, size)
    plain = torch.bincount(sweep.reference["first_tokens"][2].long(), minlength=size) / 120
    assert ess == pytest.approx(120, rel=1e-3) and torch.allclose(probs, plain.double(), atol=1e-4)


def test_few_effective_samples_hide_the_optimum_and_say_so(explorer, sweep):
    size = explorer.drift.vocabulary_size
    probs, ess = first_token_optimum(sweep, WATCHED_PROMPTS[0], 0.003, size)
    assert probs is None and ess < 50
    assert first_token_optimum(sweep, WATCHED_PROMPTS[0], 0.0, size) == (None, None)
    explorer.beta.value = 0.1
    hidden = explorer.view.best is None
    assert hidden == ("would count effectively" in explorer.status.value)


def test_every_stop_is_a_trained_policy(explorer):
    assert [label for label, _ in explorer.beta.options] == ["0", "0.1", "1"]


def test_a_run_kept_as_its_history_alone_is_no_choice_of_the_seed(sweep):
    histories = [replace(run, snapshots=[]) if run.config.seed else run for run in sweep.runs]
    explorer = DriftExplorer(replace(sweep, runs=histories))
    assert list(explorer.seed.options) == [0]
    assert len(explorer.drift.finals()) == len(sweep.runs)  # but its end is on the plane
    assert explorer.drift.likely_tokens(WATCHED_PROMPTS[0])


def test_every_control_changes_picture_and_words(explorer):
    explorer.beta.value = 0.1

    def seen():
        return [explorer.status.value + explorer.samples.value] + [
            image.value for image in explorer.images.values()
        ]

    moves = (("beta", 1.0), ("iteration", 1), ("seed", 1), ("prompt", WATCHED_PROMPTS[3]))
    changed = {"beta": (1, 1, 1), "iteration": (1, 1, 1), "seed": (1, 1, 1), "prompt": (0, 0, 1)}
    for name, value in moves:
        before = seen()
        getattr(explorer, name).value = value
        after = seen()
        assert after[0] != before[0], name
        moved = tuple(int(a != b) for a, b in zip(after[1:], before[1:], strict=True))
        assert moved == changed[name], name
        assert explorer.message.value == ""


def test_the_same_view_is_the_same_picture(explorer):
    before = {name: image.value for name, image in explorer.images.items()}
    for beta in (0.0, 0.1, 0.32, 1.0):
        explorer.beta.value = beta
    assert {name: image.value for name, image in explorer.images.items()} == before


def test_it_keeps_its_figures(explorer):
    def figures() -> int:
        gc.collect()
        return sum(issubclass(type(thing), Figure) for thing in gc.get_objects())

    count = figures()
    artists = {name: len(panel.figure.findobj()) for name, panel in explorer.panels.items()}
    for k in range(12):
        explorer.beta.value = BETAS[k % 3]
        explorer.iteration.value = k % 4
    assert figures() == count
    assert {n: len(panel.figure.findobj()) for n, panel in explorer.panels.items()} == artists


def test_a_problem_is_told_on_the_page_and_goes_away(explorer, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("<disk> on fire")

    monkeypatch.setattr(explorer.drift, "view", broken)
    explorer.beta.value = 0.0
    assert "&lt;disk&gt; on fire" in explorer.message.value
    monkeypatch.undo()
    explorer.beta.value = 1.0
    assert explorer.message.value == ""


def test_every_text_is_escaped(explorer, sweep):
    nasty = Sample(["<img>", "&", "."], [-1.0] * 3, [-2.0] * 3, "<b>x</b>", 0.0)
    explorer.view.samples[:] = [nasty]
    page = drift_samples_html(explorer.view, "<script>")
    assert "<img>" not in page and "&lt;img&gt;" in page and "&lt;script&gt;" in page
    assert "gold" not in page  # not measured, not shown


def contrast(colour: tuple[int, int, int], ink: int = 0x11) -> float:
    """WCAG 2 contrast of dark letters on a colour."""

    def light(part):
        part /= 255
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    above = 0.2126 * light(colour[0]) + 0.7152 * light(colour[1]) + 0.0722 * light(colour[2])
    return (above + 0.05) / (light(ink) + 0.05)


@pytest.mark.parametrize("drift", [-50.0, -3.0, -1.0, 0.0, 1.0, 3.0, 50.0])
def test_tokens_stay_readable_and_carry_their_number(drift):
    assert contrast(token_colour(drift)) >= 4.5
    words = chip("good", drift - 1.0, -1.0)
    assert f'title="{drift:+.2f} nats' in words
    assert ("dotted" in words) == (drift < -0.1)  # so that grey print tells them apart too


def test_colours_part_by_sign_and_grow_with_the_drift():
    assert token_colour(0.0) == (255, 255, 255)
    assert token_colour(2.0)[2] > token_colour(2.0)[0]  # blue
    assert token_colour(-2.0)[2] < token_colour(-2.0)[0]  # orange
    assert sum(token_colour(3.0)) < sum(token_colour(1.0)) and token_colour(9.0) == token_colour(
        3.0
    )


def test_a_run_of_yours_joins(explorer, sweep):
    run, _ = train(3.0, 7, iterations=5)
    explorer.add_run(run)
    assert explorer.beta.options[-1] == ("yours: β = 3", "yours")
    assert explorer.beta.value == "yours" and explorer.iteration.max == 5
    assert explorer.values["proxy"] == run.final["score"] and explorer.values["seed"] is None
    assert explorer.values["J_star"] == sweep.optimum(3.0).value and explorer.message.value == ""
    explorer.add_run(run)
    assert len(explorer.drift.added) == 1
    explorer.beta.value = 0.1
    assert explorer.values["iteration"] == ITERATIONS  # as far as that run goes
    other, _ = train(0.3, 8, iterations=2)
    explorer.add_run(other, own_reward=True)
    assert explorer.beta.value == "yours 2" and explorer.values["J_star"] is None
    assert "another reward" in explorer.status.value
    kinds = [end["kind"] for end in explorer.drift.finals()]
    assert kinds.count("added") == 1  # a height in other units has no place among them


def test_a_run_stopped_early_joins_with_what_there_is(explorer):
    run, _ = train(0.3, 7, iterations=3)
    run.final, run.history = {}, run.history[:2]
    for record in run.history:
        record.pop("gold")
    explorer.add_run(run)
    assert explorer.values["iteration"] == 1 and explorer.values["gold"] is None
    assert "own rollouts" in explorer.status.value and explorer.message.value == ""
    with pytest.raises(ValueError, match="no iteration"):
        explorer.add_run(Run(run.config))


def test_a_prompt_the_run_was_not_asked(explorer):
    run, _ = train(0.3, 7, iterations=1)
    for shot in run.snapshots:
        del shot.samples[WATCHED_PROMPTS[1]], shot.next_logprobs[WATCHED_PROMPTS[1]]
    explorer.add_run(run)
    explorer.prompt.value = WATCHED_PROMPTS[1]
    assert "kept no samples" in explorer.samples.value and explorer.message.value == ""


def test_curves_end_with_the_last_measurement(sweep):
    run = sweep.run(0.1, 0)
    curves = run_curves(run)
    assert curves["iteration"] == list(range(ITERATIONS + 1))
    assert curves["kl"] == [*run.column("kl"), run.final["kl"]]
    assert not any(math.isnan(x) for x in curves["entropy"])


def test_the_frontier_lies_above_every_policy(sweep):
    drift = Drift(sweep)
    frontier = drift.frontier()
    kl, score = ([getattr(best, name) for best in frontier] for name in ("kl", "score"))
    assert kl == sorted(kl) and score == sorted(score) and len(frontier) > 10
    for best in frontier:  # a line of slope β touches it from above
        assert all(
            best.value + best.kl_coef * x >= y - 0.02 for x, y in zip(kl, score, strict=True)
        )


def test_without_a_kernel_a_still_picture_shows(explorer, monkeypatch):
    shown = []
    monkeypatch.setattr("helpers.widgets.sliders.display", lambda data, raw: shown.append(data))
    explorer._ipython_display_()
    assert len(shown[0]["image/png"]) > 10_000 and any("widget-view" in key for key in shown[0])


def test_the_explorer_s_own_notebook_runs_where_it_stands(monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    folder = ROOT / "helpers/widgets"
    book = nbformat.read(folder / "drift_explorer.ipynb", as_version=4)
    place = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(book, timeout=300, resources=place).execute()
    (shown,) = book.cells[-1].outputs
    assert {"application/vnd.jupyter.widget-view+json", "image/png"} <= set(shown.data)


def test_an_explorer_may_go_without_a_picture(sweep, monkeypatch):
    shown = []
    monkeypatch.setattr("helpers.widgets.sliders.display", lambda bundle, raw: shown.append(bundle))
    DriftExplorer(sweep, pictured=False)._ipython_display_()
    assert "image/png" not in shown[0] and any("widget-view" in key for key in shown[0])


def test_the_gold_of_a_collapsed_policy_does_not_flatten_the_rest(sweep):
    fallen = copy.deepcopy(sweep)
    fallen.runs[0].history[-1]["gold"] = -70.0
    assert Curves(Drift(sweep)).axes["A"].get_yscale() == "linear"
    axes = Curves(Drift(fallen)).axes["A"]
    low, knee, high = axes.transAxes.inverted().transform(
        axes.transData.transform([(0, -70.0), (0, -2.0), (0, 2.0)])
    )[:, 1]
    assert 0 < low < knee < high and high - knee > 0.25  # a quarter of the height and more
