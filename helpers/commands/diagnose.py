"""`python -m helpers diagnose LOG`: the rules of lesson 09 on a log, of this course or of another library."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from helpers.commands.logs import read_log
from helpers.lessons.debugging.diagnose import LOG_RULES, RULES, Rule
from helpers.lessons.debugging.measures import mean
from helpers.lessons.debugging.names import LIBRARIES, METRICS, Series, metrics_of
from helpers.tools.flags import command, setting
from helpers.tools.validate import require

MOST = 5  # findings shown
OF_PAIRS = ("accuracy", "chosen_logprob")  # DPO, which learns from no rollouts and no rewards
OF_REWARDS = ("reward", "score", "reward_std")
WORTH = """\
In the clinic (PPO in this course's world, seeds 3 to 5, on which no range was chosen) lesson 09's 13 rules
flag 77 of 81 runs with a fault and none of 12 healthy ones; the 7 whose metrics TRL's PPO logs flag 49, the
3 of TRL's GRPO 21. Rules on other metrics are not measured there. Another model is another world: a flag is
a place to look at, and no flag is weak evidence."""
WORLD = "its range is this world's; take one from three healthy runs of your own"


@dataclass(frozen=True)
class Finding:
    """A rule that a log breaks, its number, and the values that it is read from."""

    rule: Rule
    value: float
    series: Series

    def places(self) -> list[tuple[float, float, float]]:
        """The spans that the number is read at: first and last iteration, mean of the metric."""
        rows = list(self.series.items())
        spans = [rows[span] for span in self.rule.spans(list(self.series.values()))]
        return sorted((s[0][0], s[-1][0], mean([value for _, value in s])) for s in spans)

    def lines(self) -> list[str]:
        """The finding as it is printed."""
        rule = self.rule
        seen = [f"{v:.3g} at {a:g}" + (f" to {b:g}" if a != b else "") for a, b, v in self.places()]
        return [
            f"{rule.name}: {rule.measured}: {self.value:.3g} (range: {rule.healthy})",
            f"    seen: {', '.join(dict.fromkeys(seen))} ({METRICS[rule.metric].unit})",
            f"    may mean: {rule.meaning}",
            f"    look at: {rule.look} (lesson {rule.lesson})",
        ]


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What the rules say of a log; print it, or end a cell with it."""

    source: str
    library: str
    metrics: dict[str, Series]
    infinite: dict[str, float]  # metric → first iteration without a finite value
    applied: list[Rule]
    findings: list[Finding]
    notes: list[Finding]
    skipped: dict[str, list[str]]  # why → rules that cannot be applied

    def __repr__(self) -> str:
        raised = f"{len(self.findings)} of {len(self.applied)} rules raised a flag."
        return "\n".join([*self.opening(), *self.found(), "", raised, WORTH, *self.missing()])

    @property
    def rows(self) -> int:
        """Values of the longest metric."""
        return max(map(len, self.metrics.values()), default=0)

    def opening(self) -> list[str]:
        """What was read, in the words of docs/names.md."""
        keys = ", ".join(self.metrics) or "nothing finite"
        said = f"{self.source}: {self.rows} rows, read as {LIBRARIES[self.library]} (docs/names.md)"
        warned = (f"{key} is not a finite number at {at:g}" for key, at in self.infinite.items())
        return [f"{said}: {keys}", *warned]

    def found(self) -> Iterator[str]:
        """The findings, MOST of them in full, and the notes."""
        for number, finding in enumerate(self.findings[:MOST], start=1):
            first, *rest = finding.lines()
            yield from ("", f"{number}. {first}", *rest)
        if left := [finding.rule.name for finding in self.findings[MOST:]]:
            yield from ("", f"And: {', '.join(left)}.")
        for note in self.notes:
            rule, number = note.rule, f"{note.rule.measured}: {note.value:.3g}"
            yield from ("", f"Note, {rule.name}: {number}. This is {rule.meaning}.")
            yield f"    look at: {rule.look} (lesson {rule.lesson})"

    def missing(self) -> list[str]:
        """The rules that could not be applied, and what to log for them."""
        said = [f"    {', '.join(names)}: {why}." for why, names in self.skipped.items()]
        return ["", "Not applied:", *said] if said else []


def belongs(rule: Rule, library: str, metrics: dict[str, Series]) -> bool:
    """Whether a rule is about such a run: not where another one reads the same from another metric."""
    if library == "trl_dpo" or "pair_loss" in metrics:
        return rule.metric in metrics and rule.metric not in OF_REWARDS
    if rule.metric in ("reward", "score") and "score" not in metrics:  # no scale: the trend alone
        return rule.metric == ("reward" if "reward" in metrics else "score")
    if rule.metric == "reward":
        return False
    if rule.metric in metrics:
        return True
    if rule.metric in OF_PAIRS:
        return False
    if rule.metric in ("kl", "kl_k3"):
        theirs = "kl_k3" if library == "trl_group" else "kl"
        return rule.metric == theirs and not {"kl", "kl_k3"} & set(metrics)
    return rule in RULES or library in METRICS[rule.metric].names


def obstacle(rule: Rule, library: str, metrics: dict[str, Series]) -> str:
    """Why a rule cannot be applied; empty where it can."""
    normalised = metrics.get("reward") == metrics.get("score")
    if rule.here and not (library == "course" and normalised):
        return WORLD
    if rule.metric not in metrics:
        return f"log {rule.metric}: {METRICS[rule.metric].log}"
    rows = len(metrics[rule.metric])
    return f"{rows} are too few rows: healthy runs begin so, too" if rows < rule.rows else ""


def diagnose_log(log: str | Path | list[dict], names: dict[str, str] | None = None) -> Diagnosis:
    """The rules of lesson 09 on a log: a file, a run's folder, or rows (TRL's `trainer.state.log_history`).

    `names` (metric → column) says what the columns are where docs/names.md does not have them.
    FileProblem: there is no such log. ValueError: no column is a metric.
    """
    library, read = metrics_of(log if isinstance(log, list) else read_log(Path(log)), names)
    wrong = {key: [x for x, v in series.items() if not isfinite(v)] for key, series in read.items()}
    metrics = {key: {x: v for x, v in s.items() if isfinite(v)} for key, s in read.items()}
    metrics = {key: series for key, series in metrics.items() if series}
    applied: list[Rule] = []
    skipped: dict[str, list[str]] = {}
    for rule in (rule for rule in (*RULES, *LOG_RULES) if belongs(rule, library, metrics)):
        if why := obstacle(rule, library, metrics):
            skipped.setdefault(why, []).append(rule.name)
        else:
            applied.append(rule)
    values = {rule: list(metrics[rule.metric].values()) for rule in applied}
    broken = [rule for rule in applied if rule.broken_by(values[rule])]
    found = [Finding(rule, rule.measure(values[rule]), metrics[rule.metric]) for rule in broken]
    return Diagnosis(
        source="the log" if isinstance(log, list) else str(log),
        library=library,
        metrics=metrics,
        infinite={key: places[0] for key, places in wrong.items() if places},
        applied=[rule for rule in applied if not rule.note],
        findings=[finding for finding in found if not finding.rule.note],
        notes=[finding for finding in found if finding.rule.note],
        skipped=skipped,
    )


@dataclass(kw_only=True)
class DiagnoseOptions:
    """Diagnose a log of TRL (PPO, GRPO, RLOO, DPO), verl, OpenRLHF, or a run's folder of this course."""

    names: list[str] = setting(
        [], "METRIC=COLUMN, for columns that docs/names.md does not have: --names kl=my_kl score=r"
    )

    def __post_init__(self):
        for pair in self.names:
            require("=" in pair, "names", repr(pair), "METRIC=COLUMN, such as kl=my_kl")


def main(arguments: list[str]) -> int:
    """`python -m helpers diagnose LOG`; → its exit status."""
    arguments = arguments or ["--help"]
    log, *flags = arguments

    @command("helpers diagnose LOG", DiagnoseOptions, stopped="")
    def run(options: DiagnoseOptions) -> None:
        require(not log.startswith("-"), "LOG", repr(log), "a file or folder, before all flags")
        print(diagnose_log(log, dict(pair.split("=", 1) for pair in options.names)))

    return run(arguments if log.startswith("-") else flags)
