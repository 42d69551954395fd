"""`diagnose` on logs that TRL wrote, on the course's own, on foreign ones, and on anything at all."""

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_logs import KINDS

from helpers import __main__ as command
from helpers.commands.diagnose import MOST, WORTH, diagnose_log
from helpers.commands.results import write_csv
from helpers.data import DATA
from helpers.lessons.debugging.checks import healthy
from helpers.lessons.debugging.diagnose import LOG_RULES, RULES, diagnose
from helpers.lessons.debugging.measures import last_third, mean
from helpers.lessons.debugging.names import (
    LIBRARIES,
    METRICS,
    find_names,
    in_our_units,
    metrics_of,
)
from helpers.lessons.debugging.study import load_clinic
from helpers.studies.study import load_study
from helpers.tools.files import ROOT, FileProblem, write_json, write_jsonl

LOGS = Path(__file__).parent / "logs"
RULE = {rule.name: rule for rule in (*RULES, *LOG_RULES)}


def flags(log, **how) -> set[str]:
    """The rules that a log breaks, notes left out."""
    return {finding.rule.name for finding in diagnose_log(log, **how).findings}


def history_of(kind: str, seed: int = 3) -> list[dict]:
    return load_clinic().run(kind, seed).history


# --- logs that TRL wrote ---------------------------------------------------------------------------

FLAGGED = {  # nothing is, of the other kinds
    "grpo_rate": {"KL runs away (k3)"},
    "grpo_constant": {
        "all rewards equal",
        "groups without a difference",
        "KL stays at 0 (k3)",
        "reward without a trend",
    },
    "grpo_no_eos": {"nothing ends"},
    "ppo_rate": {"KL runs away", "entropy collapse", "updates too large"},
    "ppo_beta_0": {"KL runs away"},
    "ppo_pad": {"more EOS than responses"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_found_in_a_log_of_trl(kind):
    assert flags(LOGS / f"{kind}.json") == FLAGGED.get(kind, set())


def test_the_logs_are_those_of_the_command_and_small():
    assert {path.stem for path in LOGS.iterdir()} == set(KINDS) >= set(FLAGGED)
    assert max(path.stat().st_size for path in LOGS.iterdir()) <= 20_000


def test_what_is_normal_is_a_note_and_what_cannot_be_applied_is_said_with_what_to_log():
    notes = {note.rule.name for note in diagnose_log(LOGS / "rloo.json").notes}
    assert notes == {"nothing is clipped", "loss near 0"}
    assert not diagnose_log(LOGS / "ppo.json").notes
    said = str(diagnose_log(LOGS / "grpo_beta_0.json"))
    k3 = "negative KL (k3), KL runs away (k3), KL stays at 0 (k3)"
    assert f"{k3}: log kl_k3: kl in TRL (beta above 0)" in said
    assert "log first_ratio_error" in said and "nothing ends:" not in said
    assert "first_ratio_error" not in str(diagnose_log(LOGS / "dpo.json"))


# --- the course's own ------------------------------------------------------------------------------


def test_a_run_of_the_course_gets_the_flags_of_lesson_09():
    names = {rule.name for rule in RULES}
    for run in load_clinic().runs:
        assert flags(run.history) & names == {flag.name for flag in diagnose(run.history)}, run.kind


@pytest.mark.parametrize("kind", ["healthy", "kl_sign"])
def test_a_run_is_the_same_as_folder_table_and_checkpoint(kind, tmp_path):
    history = history_of(kind, 0)
    write_csv(tmp_path / "metrics.csv", history)
    columns = {key: [row[key] for row in history] for key in history[0]}
    forms = {"rows": history, "state": {"history": history}, "columns": columns}
    for name, value in forms.items():
        write_json(tmp_path / f"{name}.json", value)
    write_jsonl(tmp_path / "rows.jsonl", history)
    newest = tmp_path / "output" / "checkpoint-9"  # as TRL writes it
    newest.mkdir(parents=True)
    write_json(newest / "trainer_state.json", {"log_history": history})
    shipped = flags(DATA / "clinic" / f"{kind}_seed_0")
    assert all(flags(path) == shipped for path in (tmp_path, *tmp_path.iterdir()))
    assert bool(shipped) == (kind == "kl_sign")


def test_runs_without_a_critic_are_flagged_where_the_sampler_is_stale_and_nowhere_else():
    found = Counter()
    for run in load_study(DATA / "without_a_critic").runs:
        if "kl" in run.history[0] and not run.kind.startswith("task"):
            raised = flags(run.history)
            stale = run.kind.startswith("stale_")
            assert raised == ({"negative KL"} if stale else set()), run.label
            found[bool(raised)] += 1
    assert found[True] == 6 and found[False] > 20


# --- other names, other units ----------------------------------------------------------------------


def test_a_foreign_csv_as_a_logger_exports_it(tmp_path):
    rows = [
        {"Step": k, "run-7 - train/objective/kl": row["kl"], "loss_of_mine": 0.1, "note": "text"}
        for k, row in enumerate(history_of("kl_sign"))
    ]
    write_csv(tmp_path / "export.csv", rows)
    assert flags(tmp_path / "export.csv") == {"KL runs away"}


def test_names_of_ones_own(tmp_path, capsys):
    rows = [{"distance": row["kl"], "r": row["score"]} for row in history_of("no_kl")]
    write_jsonl(tmp_path / "mine.jsonl", rows)
    names = ["--names", "kl=distance", "score=r"]
    assert command.main(["diagnose", str(tmp_path / "mine.jsonl"), *names]) == 0
    assert "1. KL runs away: kl, largest:" in capsys.readouterr().out
    with pytest.raises(ValueError, match="log: got the columns distance, r, wants one that docs"):
        diagnose_log(rows)
    wrong = {"one of the log's columns": {"kl": "x"}, "names: got 'KL'": {"KL": "r"}}
    for says, named in wrong.items():
        with pytest.raises(ValueError, match=says):
            diagnose_log(rows, named)


def test_lines_that_trl_and_verl_print(tmp_path):
    trl = "{'loss': 0.0, 'grad_norm': '0.0', 'reward': 3.0, 'reward_std': 0.0, 'completion_length': 7}"
    verl = (
        "(Task pid=1) step:{} - actor/kl_loss:{} - critic/score/mean:0.1 - response_length/mean:2{}"
    )
    more = trl.replace("3.0", "3.5").replace("7}", "9}")
    (tmp_path / "trl.txt").write_text(f"  0%| | 0/9\n{trl}\n 11%| | 1/9\n{more}\n")
    (tmp_path / "verl.txt").write_text("\n".join(verl.format(k, k, k % 9) for k in range(1, 19)))
    assert flags(tmp_path / "trl.txt") == {"all rewards equal", "no gradient"}
    assert flags(tmp_path / "verl.txt") == {"KL runs away (k3)", "reward without a trend"}


def test_a_k3_below_0_is_told_as_such_and_a_named_column_is_read_once(tmp_path):
    path = tmp_path / "trl.csv"
    rows = [f"{k},{-0.02 * k},{0.1 * k},0.5,1.0,{20 + k % 9}" for k in range(1, 19)]
    head = "step,kl,reward,reward_std,grad_norm,completion_length"
    path.write_text("\n".join([head, *rows]))
    assert flags(path) == {"negative KL (k3)"}
    assert flags(path, names={"kl_per_token": "kl"}) == {"negative KL"}


def test_units_by_hand():
    given = {
        "reward": {1: 4.0, 2: 6.0},
        "reward_std": {1: 2.0, 2: 2.0},
        "raw_value_loss": {1: 4.0},
        "k3_per_token": {1: 0.5, 3: 0.1},
        "response_length": {1: 10.0, 2: 12.0},
        "eos_count": {1: 48.0, 2: 64.0},
        "episode": {1: 64.0, 2: 128.0},
    }
    made = in_our_units(given)
    assert made["score"] == {1: 2.0, 2: 3.0} and made["value_loss"] == {1: 1.0}
    assert made["kl_k3"] == {1: 5.0} and made["ended"] == {1: 0.75, 2: 1.0} and "kl" not in made
    assert "score" not in in_our_units({"reward": {1: 1.0}, "reward_std": {1: 0.0}})
    given = {"not_ended": {1: 0.25}, "kl_per_token": {1: 0.5}, "response_length": {1: 8.0}}
    made = in_our_units(given)
    assert made["ended"] == {1: 0.75} and made["kl"] == {1: 4.0}
    # a course's scores are in standard deviations already
    given = {"score": {1: 1.0}, "reward_std": {1: 2.0}, "value_loss": {1: 3.0}}
    assert in_our_units(given) == given | {"reward": {1: 1.0}}


def test_a_kl_of_an_update_may_be_estimated_below_0():
    rows = [{"actor/ppo_kl": -1.51e-6, "critic/score/mean": k} for k in range(9)]
    assert not flags(rows)


def test_a_course_s_run_on_pairs_has_no_rules_of_rewards_and_rollouts():
    rows = [
        {"loss": 0.7 - 0.02 * k, "accuracy": 0.8, "score": 0.0, "score_std": 0.0, "grad_norm": 1.0}
        for k in range(9)
    ]
    assert not flags(rows) and "Not applied" not in str(diagnose_log(rows))


def names_table() -> str:
    """The table of docs/names.md: METRICS, with the range of the last third's mean in healthy runs."""
    libraries = [library for library in LIBRARIES if library != "other"]
    heads = ["metric", "unit", *map(LIBRARIES.get, libraries), "healthy here", "a strange value"]
    lines = [heads, ["---"] * len(heads)]
    runs = load_clinic().runs
    everywhere = set.intersection(*(set(metrics_of(run.history)[1]) for run in runs))
    well = [metrics_of(run.history)[1] for run in runs if healthy(run.kind)]
    for key, metric in METRICS.items():
        names = (", ".join(f"`{name}`" for name in metric.names.get(x, ())) for x in libraries)
        logged = [list(run[key].values()) for run in well if key in everywhere]
        ends = [mean(values[last_third(values)]) for values in logged if "course" in metric.names]
        span = f"{min(ends):.2g} to {max(ends):.2g}" if ends else "–"
        lines.append([f"`{key}`", metric.unit.replace("|", "\\|"), *names, span, metric.wrong])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def test_a_name_means_one_metric_in_a_library_and_the_page_shows_them_all():
    for library in LIBRARIES:
        names = [name for metric in METRICS.values() for name in metric.names.get(library, ())]
        assert max(Counter(names).values()) == 1
        assert find_names(names)[0] == library or library == "other"
    # names that several libraries have are not the course's
    assert find_names(["train/kl", "train/loss"])[0] == "trl_group"
    assert find_names(["kl", "score"])[0] == "course"
    assert {rule.metric for rule in (*RULES, *LOG_RULES)} <= set(METRICS)
    assert (ROOT / "docs" / "names.md").read_text("utf-8").endswith(f"\n\n{names_table()}\n")


# --- what the rules are worth ----------------------------------------------------------------------


def test_what_is_said_of_the_rules_is_counted_on_the_seeds_that_no_range_was_chosen_on():
    unseen = [run for run in load_clinic().runs if run.config.seed in (3, 4, 5)]
    flags = [({flag.name for flag in diagnose(run.history)}, healthy(run.kind)) for run in unseen]
    assert not any(raised for raised, well in flags if well)
    anywhere = [rule for rule in RULES if not rule.here]
    logged = (
        [rule for rule in anywhere if library in METRICS[rule.metric].names]
        for library in ("trl_ppo", "trl_group")
    )
    (n, every), (m, ppo), (k, grpo) = (
        (len(rules), sum(bool(raised & {rule.name for rule in rules}) for raised, _ in flags))
        for rules in (RULES, *logged)
    )
    well = sum(well for _, well in flags)
    said = f"lesson 09's {n} rules flag {every} of {len(flags) - well} runs with a fault and none"
    said += f" of {well} healthy ones; the {m} whose metrics TRL's PPO logs flag {ppo}, the {k} of"
    assert f"{said} TRL's GRPO {grpo}." in " ".join(WORTH.split())


def test_scores_that_were_not_normalised_are_rewards_in_their_own_unit():
    rows = history_of("raw_scores")
    assert "score off scale" in flags([row | {"raw_score": 1.0} for row in rows])
    raw = diagnose_log([row | {"raw_score": row["score"]} for row in rows])
    assert not raw.findings and "score" not in raw.metrics
    assert list(raw.metrics["reward"].values()) == [row["score"] for row in rows]


def test_a_rule_that_healthy_runs_break_at_first_waits():
    seen = [run for run in load_clinic().runs if healthy(run.kind) and run.config.seed in (0, 1, 2)]
    for run in seen:
        read, k3 = metrics_of(run.history)[1], {"kl_k3": "kl"}  # an estimate of the same
        for rule in (rule for rule in RULE.values() if not rule.note):
            values = list(read.get(k3.get(rule.metric, rule.metric), {}).values())
            ends = range(rule.rows, len(values) + 1)
            assert not any(rule.broken_by(values[:end]) for end in ends), rule.name
    diagnosis = diagnose_log([{"score": 0.0, "kl": 0.0, "entropy": 1.0}] * 2)
    assert not diagnosis.findings and "are too few rows" in str(diagnosis)
    rows = [{"iteration": k, "kl": 0.04, "first_ratio_error": 0.0} for k in range(6)]
    assert [flags(rows[:count]) for count in (5, 6)] == [set(), {"KL stays at 0"}]


# --- the command -----------------------------------------------------------------------------------


def test_five_findings_in_full_each_with_evidence_meaning_and_lesson(capsys):
    assert command.main(["diagnose", str(DATA / "clinic" / "learning_rate_gross_seed_0")]) == 0
    said = capsys.readouterr().out
    for part in ("    may mean: ", "    seen: ", "(lesson "):
        assert said.count(part) == MOST
    assert "\n5. " in said and "\n6. " not in said and "\nAnd: " in said


def test_values_that_are_no_numbers_are_named_and_left_out():
    history = history_of("healthy")
    history = [*history[:9], history[9] | {"kl": math.nan}, *history[10:]]
    diagnosis = diagnose_log(history)
    assert diagnosis.infinite == {"kl": 10} and not diagnosis.findings
    assert "kl is not a finite number at 10" in str(diagnosis)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.json"], "nowhere.json cannot be read (No such file or directory)."),
        (["tests"], "tests has no log: wants metrics.csv"),
        (["LICENSE"], "LICENSE has no row of numbers: wants TRL's trainer_state.json"),
        (["--names", "kl=x"], "LOG: got '--names', wants a file or folder"),
        (["README.md", "--names", "kl"], "names: got 'kl', wants METRIC=COLUMN"),
    ],
)
def test_wrong_input_is_one_sentence(capsys, arguments, says):
    assert command.main(["diagnose", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


# --- anything at all -------------------------------------------------------------------------------

NAMES = sorted({name for m in METRICS.values() for names in m.names.values() for name in names})
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
ROW = st.dictionaries(st.sampled_from([*NAMES, "step", "other"]), VALUES, max_size=6)
ROWS = st.lists(ROW, max_size=6)
ANYTHING = st.recursive(
    VALUES | ROWS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


def survives(folders, name: str, text: str) -> None:
    """A log of this text gives findings, or one sentence."""
    path = folders.mktemp("fuzz") / name
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        assert str(diagnose_log(path))
    except (FileProblem, ValueError) as problem:
        assert "wants" in str(problem)


@pytest.mark.slow
@given(ROWS | ANYTHING | st.fixed_dictionaries({"log_history": ROWS | ANYTHING}))
def test_any_json_gives_findings_or_one_sentence(tmp_path_factory, value):
    survives(tmp_path_factory, "log.json", json.dumps(value))


@given(
    st.text()
    | st.lists(st.lists(st.sampled_from([*NAMES, "1", "-3e400", "nan", '"', "{", "step:2"])))
)
def test_any_text_gives_findings_or_one_sentence(tmp_path_factory, text):
    lines = text if isinstance(text, str) else "\n".join(",".join(row) for row in text)
    survives(tmp_path_factory, "log.csv", lines)
