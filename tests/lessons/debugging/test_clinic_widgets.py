"""The clinic's page on the shipped runs: verdicts, the score kept, sliders, escaping, no figure kept."""

import pytest
from markupsafe import escape

from helpers.kit.figures import label_axes, one_panel
from helpers.lessons.debugging import widgets as page
from helpers.lessons.debugging.cases import CASES, Case
from helpers.lessons.debugging.differences import tell_apart
from helpers.lessons.debugging.study import WHOLE_RUN_SEED, load_clinic
from helpers.lessons.debugging.widgets import HEALTHY, ClinicExplorer, explore_clinic, in_case_order
from helpers.studies.faults import FAULTS


@pytest.fixture
def explorer(monkeypatch) -> ClinicExplorer:
    """Its figures have their titles alone: what `case_figure` draws, `kit/test_widgets.py` looks at."""

    def titled(healthy, broken, title):
        figure, axes = one_panel(2, 1)
        label_axes(axes, title)
        return figure

    monkeypatch.setattr(page, "case_figure", titled)
    return explore_clinic(load_clinic())


def choose(explorer: ClinicExplorer, name: str) -> str:
    """Pick a diagnosis and press the button; → what the page says."""
    explorer.guess.value = name
    explorer.diagnose_button.click()
    return explorer.verdict.value


def go_to(explorer: ClinicExplorer, kind: str) -> Case:
    """Pick the case whose runs are of this kind."""
    number = next(k for k, case in explorer.cases.items() if case.kind == kind)
    explorer.case.value = number
    return explorer.cases[number]


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.nightly)])
def test_cases_are_shuffled_and_no_case_names_its_fault(explorer, every):
    labels = [label for label, _ in explorer.case.options]
    assert labels == [f"case {k}" for k in range(1, len(CASES) + 1)]
    cases = list(explorer.cases.values())
    assert set(cases) == set(CASES) and cases != list(CASES)
    assert cases == in_case_order(reversed(CASES))
    for number, case in list(explorer.cases.items())[::every]:
        explorer.case.value = number
        seen = explorer.samples.value + explorer.verdict.value + explorer.progress.value
        for name in case.faults:
            assert name not in seen and escape(FAULTS[name].title) not in seen
        assert bytes(explorer.image.value).startswith(b"\x89PNG")


@pytest.mark.parametrize(("kind", "name"), [("kl_sign", "kl_sign"), ("healthy_0.2", HEALTHY)])
def test_a_right_diagnosis_names_the_sign_and_counts_once(explorer, kind, name):
    case = go_to(explorer, kind)
    assert "Not this one." in choose(explorer, "no_kl")
    for _ in range(2):
        said = choose(explorer, name)
        assert "Right." in said and escape(case.sign) in said
        assert f"1 of {len(CASES)} solved" in explorer.progress.value
    assert explorer.solved == {explorer.case.value} and explorer.shown == set()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_faults_the_one_named_is_repaired_and_the_other_is_left(explorer, order):
    case = go_to(explorer, "raw_scores_and_beta_100x")
    first, second = (case.faults[k] for k in order)
    before = bytes(explorer.image.value)
    said = choose(explorer, first)
    assert escape(FAULTS[first].title) in said and "trained again" in said
    assert explorer.current.faults == (second,) and bytes(explorer.image.value) != before
    assert explorer.solved == set() and "Not this one." in choose(explorer, HEALTHY)
    said = choose(explorer, second)
    assert "Right." in said and escape(case.sign) in said
    assert explorer.solved == {explorer.case.value}


def test_a_wrong_diagnosis_names_the_number_that_tells_the_two_apart(explorer):
    case = go_to(explorer, "no_kl")
    said = choose(explorer, "kl_sign")
    runs = [load_clinic().histories(name) for name in ("no_kl", "kl_sign")]
    told = tell_apart(*runs)
    assert "Not this one." in said and escape(FAULTS["kl_sign"].sign) in said
    assert told in said and escape(case.title) not in said
    assert explorer.solved == set() and f"0 of {len(CASES)}" in explorer.progress.value


def test_no_wrong_diagnosis_gives_the_answer_away(explorer):
    for number, case in explorer.cases.items():
        explorer.case.value = number
        said = choose(explorer, next(name for name in FAULTS if name not in case.faults))
        assert escape(case.sign) not in said
        assert all(escape(FAULTS[name].title) not in said for name in case.faults)


def test_an_answer_shown_is_not_a_case_solved(explorer):
    case = go_to(explorer, "kl_sign")
    number = explorer.case.value
    explorer.answer_button.click()
    assert escape(case.title) in explorer.verdict.value
    assert f'rerun("{case.kind}")' in explorer.verdict.value
    assert "Right." in choose(explorer, "kl_sign")
    assert explorer.solved == set() and explorer.shown == {number}
    assert f"answer shown: {number}" in explorer.progress.value
    explorer.next_button.click()
    assert explorer.case.value == number % len(CASES) + 1 and explorer.verdict.value == ""
    assert explorer.guess.value == ""
    explorer.case.value = number
    assert "The answer." in explorer.verdict.value  # still known


def test_all_solved(explorer):
    for _ in CASES:
        for name in explorer.current.faults or (HEALTHY,):
            choose(explorer, name)
        explorer.next_button.click()
    assert explorer.solved == set(explorer.cases)
    assert f"{len(CASES)} of {len(CASES)} solved" in explorer.progress.value
    assert "Every case has a diagnosis" in explorer.progress.value
    explorer.answer_button.click()
    assert explorer.shown == set() and "Right." not in explorer.verdict.value


def test_samples_are_the_runs_own_at_both_ends_of_the_slider(explorer):
    clinic, stops = load_clinic(), [value for _, value in explorer.iteration.options]
    healthy = clinic.run("healthy", WHOLE_RUN_SEED)
    for number, case in list(explorer.cases.items())[::4]:
        explorer.case.value = number
        for stop in (stops[0], stops[-1]):
            explorer.iteration.value = stop
            for run in (healthy, clinic.run(case.kind, case.seeds[0])):
                shot = run.at(stop)
                assert shot.iteration == stop
                for some in shot.samples.values():
                    assert escape(some[0].text) in explorer.samples.value
        assert explorer.verdict.value == ""


def test_a_problem_is_told_on_the_page(explorer, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("<disk> on fire")

    monkeypatch.setattr(explorer.clinic, "histories", broken, raising=False)
    explorer.case.value = 2
    assert "&lt;disk&gt; on fire" in explorer.verdict.value
    monkeypatch.undo()
    explorer.case.value = 3
    assert explorer.verdict.value == ""
