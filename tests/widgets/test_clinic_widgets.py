"""The clinic's page on the shipped runs: verdicts, the score kept, sliders, escaping, no figure kept."""

import gc
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import tiny_models
from markupsafe import escape
from matplotlib.figure import Figure

from helpers.experiments.clinic import WHOLE_RUN_SEED, Clinic, load_clinic
from helpers.experiments.diagnose import RULES, STATISTICS
from helpers.experiments.faults import FAULTS
from helpers.experiments.runs import Run, record_run
from helpers.plots.clinic import METRICS, cost_figure, flags_figure, healthy_figure, signs_figure
from helpers.state import start_run
from helpers.widgets import clinic as page
from helpers.widgets.clinic import (
    WHERE_TO_LOOK,
    ClinicExplorer,
    answer_html,
    case_samples_html,
    explore_clinic,
    follow,
    in_case_order,
    right_html,
    wrong_html,
)


@pytest.fixture(scope="module")
def clinic() -> Clinic:
    return load_clinic()


@pytest.fixture(scope="module")
def pictures() -> dict[str, SimpleNamespace]:
    """What `case_figure` drew, by its title: drawn once for all tests."""
    return {}


@pytest.fixture
def explorer(clinic, pictures, monkeypatch) -> ClinicExplorer:
    draw = page.case_figure

    def draw_once(healthy, broken, title):
        if title not in pictures:
            figure = draw(healthy, broken, title)
            drawn, width = figure.png(2), figure.get_figwidth()
            still = {"png": lambda scale: drawn, "_repr_png_": lambda: drawn, "DPI": figure.DPI}
            pictures[title] = SimpleNamespace(get_figwidth=lambda: width, **still)
        return pictures[title]

    monkeypatch.setattr(page, "case_figure", draw_once)
    return explore_clinic(clinic)


def choose(explorer: ClinicExplorer, name: str) -> str:
    """Pick a diagnosis and press the button; → what the page says."""
    explorer.guess.value = name
    explorer.diagnose_button.click()
    return explorer.verdict.value


def other(explorer: ClinicExplorer) -> str:
    """A fault that this case does not have."""
    return next(name for name in FAULTS if name != explorer.fault.name)


def test_every_fault_is_a_case_and_no_case_names_its_fault(explorer):
    labels = [label for label, _ in explorer.case.options]
    assert labels == [f"case {k}" for k in range(1, len(FAULTS) + 1)]
    names = [fault.name for fault in explorer.faults.values()]
    assert sorted(names) == sorted(FAULTS) and names != list(FAULTS)
    assert names == in_case_order(list(reversed(FAULTS)))
    for number, fault in explorer.faults.items():
        explorer.case.value = number
        seen = explorer.samples.value + explorer.verdict.value + explorer.progress.value
        assert fault.name not in seen and escape(fault.title) not in seen
        assert bytes(explorer.image.value).startswith(b"\x89PNG")


def test_a_right_diagnosis_names_the_sign_and_counts_once(explorer):
    for _ in range(2):
        said = choose(explorer, explorer.fault.name)
        assert "Right." in said and escape(explorer.fault.sign) in said
        assert f"1 of {len(FAULTS)} solved" in explorer.progress.value
    assert explorer.solved == {1} and explorer.shown == set()


def test_a_wrong_diagnosis_says_what_that_fault_would_have_shown(explorer):
    name = other(explorer)
    said = choose(explorer, name)
    assert "Not this one." in said and escape(FAULTS[name].sign) in said
    assert explorer.solved == set() and f"0 of {len(FAULTS)}" in explorer.progress.value


def test_a_hint_can_point_at_every_statistic():
    assert set(WHERE_TO_LOOK) == set(STATISTICS)
    assert {fault.statistic for fault in FAULTS.values()} <= {metric.key for metric in METRICS}


def test_no_wrong_diagnosis_gives_the_answer_away():
    for fault in FAULTS.values():
        for chosen in FAULTS.values():
            if chosen is not fault:
                said = wrong_html(chosen, fault)
                assert escape(fault.title) not in said and escape(fault.sign) not in said
                assert WHERE_TO_LOOK[fault.statistic] in said
                same = chosen.statistic == fault.statistic
                assert same == ("may be looking at the right curve" in said)


def test_nothing_chosen_is_no_diagnosis(explorer):
    assert "Choose a fault first" in choose(explorer, "")
    assert explorer.solved == set()


def test_an_answer_shown_is_not_a_case_solved(explorer):
    explorer.answer_button.click()
    fault = explorer.fault
    assert escape(fault.title) in explorer.verdict.value
    assert f'rerun("{fault.name}")' in explorer.verdict.value
    assert "Right." in choose(explorer, fault.name)
    assert explorer.solved == set() and explorer.shown == {1}
    assert "answer shown: 1" in explorer.progress.value
    explorer.next_button.click()
    assert explorer.case.value == 2 and explorer.verdict.value == ""
    assert explorer.guess.value == ""
    explorer.case.value = 1
    assert "The answer." in explorer.verdict.value  # still known


def test_all_solved(explorer):
    for _ in FAULTS:
        choose(explorer, explorer.fault.name)
        explorer.next_button.click()
    assert explorer.solved == set(explorer.faults)
    assert f"{len(FAULTS)} of {len(FAULTS)} solved" in explorer.progress.value
    assert "Every patient has a diagnosis" in explorer.progress.value
    explorer.answer_button.click()
    assert explorer.shown == set() and "Right." not in explorer.verdict.value


def test_samples_are_the_runs_own_at_both_ends_of_the_slider(explorer, clinic):
    stops = [value for _, value in explorer.iteration.options]
    healthy = clinic.run("healthy", WHOLE_RUN_SEED)
    for number, fault in explorer.faults.items():
        explorer.case.value = number
        for stop in (stops[0], stops[-1]):
            explorer.iteration.value = stop
            for run in (healthy, clinic.run(fault.name, WHOLE_RUN_SEED)):
                shot = run.at(stop)
                assert shot.iteration == stop
                for some in shot.samples.values():
                    assert escape(some[0].text) in explorer.samples.value
        assert explorer.verdict.value == ""


def test_pictures_differ_and_are_drawn_once(explorer, monkeypatch):
    first = bytes(explorer.image.value)
    explorer.case.value = 2
    assert bytes(explorer.image.value) != first
    monkeypatch.setattr(page, "case_figure", None)  # whoever draws again fails
    explorer.case.value = 1
    assert bytes(explorer.image.value) == first and explorer.verdict.value == ""


def test_it_keeps_no_figure(clinic):
    explorer = explore_clinic(clinic)

    def figures() -> int:
        gc.collect()
        return sum(issubclass(type(thing), Figure) for thing in gc.get_objects())

    before = figures()
    for number in (2, 3):
        explorer.case.value = number
    assert figures() == before and set(explorer.pictures) == {1, 2, 3}


def test_every_text_is_escaped(clinic):
    name = next(iter(FAULTS))
    run = deepcopy(clinic.run(name, WHOLE_RUN_SEED))
    shot = run.snapshots[-1]
    for some in shot.samples.values():
        some[0].text = "<script>alert(1)</script> & so on"
    said = case_samples_html(shot, shot, "<b>case</b>")
    assert "<script>" not in said and "&lt;script&gt;" in said and "&lt;b&gt;case" in said
    nasty = replace(FAULTS[name], name="<i>n", title="<i>t", sign="<i>s & s")
    for said in (right_html(nasty), answer_html(nasty), wrong_html(nasty, FAULTS[name])):
        assert "<i>" not in said and "&lt;i&gt;s &amp; s" in said


def test_a_problem_is_told_on_the_page(explorer, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("<disk> on fire")

    monkeypatch.setattr(explorer.clinic, "histories", broken, raising=False)
    explorer.case.value = 2
    assert "&lt;disk&gt; on fire" in explorer.verdict.value
    monkeypatch.undo()
    explorer.case.value = 3
    assert explorer.verdict.value == ""


def test_a_clinic_without_patients_is_refused(clinic):
    with pytest.raises(ValueError, match="no broken run"):
        only_histories = [run for run in clinic.runs if not run.snapshots]
        ClinicExplorer(Clinic(only_histories, {}))


def test_without_a_kernel_the_curves_show(explorer, monkeypatch):
    shown = []
    monkeypatch.setattr("helpers.widgets.sliders.display", lambda data, raw: shown.append(data))
    explorer._ipython_display_()
    assert len(shown[0]["image/png"]) > 10_000 and any("widget-view" in key for key in shown[0])


def test_a_live_run_is_followed(monkeypatch, config, prompts):
    calls = []

    class Handle:
        def display(self, what):
            calls.append(("display", type(what).__name__))

        def update(self, what):
            calls.append(("update", type(what).__name__))

    monkeypatch.setattr(page, "DisplayHandle", Handle)
    state = start_run(replace(config, iterations=2), tiny_models(), prompts=prompts)
    shown = follow(2)
    for run in record_run(state, Run(state.config), prompts=tuple(prompts)):
        shown(run)
    assert calls == [
        ("display", "HTML"),
        ("update", "HTML"),
        ("display", "Picture"),
        ("update", "HTML"),
        ("update", "Picture"),
    ]


def test_the_other_figures_draw(clinic):
    healthy = clinic.histories("healthy")
    assert len(healthy_figure(healthy).axes) == 12
    cases = {
        "A": ("kl", clinic.histories("kl_sign")),
        "B": ("score", clinic.histories("beta_100x")),
    }
    counts = {"a": {rule.name: k % 4 for k, rule in enumerate(RULES)}}
    counts["b"] = dict.fromkeys(counts["a"], 0)
    for figure in (
        signs_figure(healthy, cases),
        flags_figure(counts, {"a": 3, "b": 12}),
        cost_figure({"a": [1.0, 2.0, 3.0]}, [2.0, 2.5]),
    ):
        assert figure._repr_png_().startswith(b"\x89PNG")
