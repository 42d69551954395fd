"""`python -m benchmarks.methods`: PPO, RLOO, GRPO, REINFORCE, DPO, best of n and TRL's on one yardstick.

Efficiency (`yardstick.py`) by the number of scored responses. A method has the rate that was best for
each β on TUNED_ON, and seeds that had no part in the choice; all else is the β sweep's.
DPO's pairs are two reference responses, labelled with P(first preferred) = sigmoid(score difference).

One JSON file a run in `benchmarks/results/methods`; started again, the command goes on.
"""

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import torch
from matplotlib.axes import Axes

from benchmarks import trl_ppo as trl
from benchmarks.common import RESULTS, command, emit, machine, show
from benchmarks.trl_trainers import train_with_trl
from benchmarks.yardstick import RATES, TUNED_ON, Yardstick, best_rate, untried
from helpers.config import DirectConfig, RLHFConfig
from helpers.direct import train_direct
from helpers.kit.figures import Picture, label_axes, new_figure
from helpers.kit.palette import GOLD, POLICY, REFERENCE, REWARD
from helpers.lessons.overoptimization.checks import check_keep_best
from helpers.loop import train_rlhf_loop
from helpers.sampling import sample_batches
from helpers.scale.memory import peak_bytes, reset_peak
from helpers.scale.trl_groups import grpo_is_here
from helpers.state import RLHFState, start_run
from helpers.studies.beta_sweep import BetaSweepOptions, load_sweep
from helpers.studies.measure import MEASURES, measure
from helpers.studies.runs import significant
from helpers.tools.files import ROOT, read_json, write_json
from helpers.tools.flags import setting
from helpers.tools.pool import advance, run_all
from helpers.tools.validate import require

RESPONSES = 128  # of an iteration
EVALUATED = 80  # fresh responses to each of 128 prompts, for a last policy
MEASURED = (10, 30, 50, 100)  # iterations after which a peer's policy is measured
FOLDER = RESULTS / "methods"
FINAL = ("score", "gold", "kl")  # of a last policy, for the table
KEPT = ("score", "kl", "entropy", "seconds")  # of a run's records
PICTURE = ROOT / "notebooks/images/methods.png"
NS = (2, 4, 8, 16, 32, 64, 128, 256)  # of best of n
TRL_PPO = "TRL's PPOTrainer"


@dataclass(frozen=True)
class Method:
    """How a method differs from the sweep's PPO, whether it learns from pairs, and who trains it."""

    changes: dict = field(default_factory=dict)
    pairs: bool = False
    trl: bool = False  # trained by TRL's trainer
    beta: float | None = None  # the only one that is asked


def groups(method: str, trl: bool = False, beta: float | None = None, **changes: object) -> Method:
    """A method without a critic that compares four responses to a prompt."""
    changes = {"method": method, "responses_per_prompt": 4} | changes
    return Method(changes, trl=trl, beta=beta)


IN_LOSS = {"kl_placement": "loss", "kl_loss": "k3"}  # where TRL's GRPO has its KL
PAPER = IN_LOSS | {"loss_aggregation": "response"}  # and as the paper that named GRPO has it
APART = {"beta": 0.1}  # what each part of that loss is worth is asked at one β
METHODS = {
    "PPO": Method(),
    "REINFORCE, whitened": Method({"method": "reinforce"}),
    "RLOO": groups("rloo"),
    "GRPO": groups("grpo", loss_aggregation="response"),
    "GRPO, token mean, clip-higher (DAPO)": groups("grpo", cliprange_high=0.28),
    "GRPO, no std, fixed length (Dr. GRPO)": groups(
        "grpo", scale_by_std=False, loss_aggregation="fixed"
    ),
    "GRPO, KL as k3 in the loss": groups("grpo", **PAPER),
    "GRPO, k3 in the loss, ratio": groups("grpo", **PAPER, **APART, kl_ratio=True),
    "GRPO, k3 in the loss, no std": groups("grpo", **PAPER, **APART, scale_by_std=False),
    "GRPO, k3 in the loss, no std, ratio": groups(
        "grpo", **PAPER, **APART, scale_by_std=False, kl_ratio=True
    ),
    "DPO": Method(pairs=True),
    "online DPO": Method({"online": True}, pairs=True),
    "TRL's RLOOTrainer": groups("rloo", trl=True),
    "TRL's GRPOTrainer, the paper's loss": groups("grpo", trl=True, **PAPER),
    "TRL's GRPOTrainer, its default loss": groups(
        "grpo", trl=True, **IN_LOSS, **APART, kl_ratio=True
    ),
    "TRL's DPOTrainer": Method(pairs=True, trl=True),
    TRL_PPO: Method({"adam_eps": 1e-8}, trl=True),  # its own default
}


@dataclass
class Plan:
    """What is asked; all methods that are here, if none is named."""

    methods: list[str] = setting([], "only these", choices=list(METHODS))
    iterations: int = setting(100, "of a run")
    betas: list[float] = setting([0.1, 0.3], "KL coefficients")
    seeds: list[int] = setting([0, 1, 2], "of the runs that are shown")
    budgets: list[int] = setting(list(MEASURED[:-1]), "iterations at which efficiency is shown")
    rate: float | None = setting(None, "one for all β, in place of the best for each")
    jobs: int = setting(2, "runs at a time")
    picture: bool = setting(False, f"write {PICTURE.name}")
    table: bool = setting(False, "only existing runs; make none")

    def __post_init__(self):
        for name in () if self.table else self.methods:
            wants = "`pip install trl datasets` for this one (trl==1.12.0 for PPO)"
            require(is_here(name), "--methods", repr(name), wants)


def make_config(name: str, beta: float, seed: int, rate: float, iterations: int):
    """The config of one run: that of the sweep, changed by the method; pairs are half as many."""
    config = BetaSweepOptions(iterations=iterations).config(seed, kl_coef=beta)
    method, rates = METHODS[name], {"learning_rate": rate}
    if name == TRL_PPO:
        rates["critic_learning_rate"] = rate  # it has one optimizer
    if not method.pairs:
        return replace(config, **rates, **method.changes)
    size = config.batch_size // 2
    shared = {"kl_coef": beta, "seed": seed, "iterations": iterations, "device": "cpu"}
    return DirectConfig(batch_size=size, minibatch_size=size, **shared, **rates, **method.changes)


def sampled_pairs(config: DirectConfig, state: RLHFState) -> list[dict]:
    """As many pairs as the run will see: reference responses, each choice drawn by sigmoid(Δ score)."""
    generator = torch.Generator().manual_seed(1_000 + config.seed)
    count, models = config.iterations * config.batch_size, state.models
    twice = [prompt for prompt in state.prompts for _ in range(2)]
    what = (models.reference, models.tokenizer, twice, 2 * count, config, generator)
    written = [text for responses in sample_batches(*what) for text in responses.texts]
    gaps = state.score(written).view(count, 2)
    first = torch.rand(count, generator=generator) < torch.sigmoid(gaps[:, 0] - gaps[:, 1])
    rows = []
    for (a, b), won in zip(zip(written[::2], written[1::2], strict=True), first, strict=True):
        chosen, rejected = (x.removeprefix(x.prompt) for x in ((a, b) if won else (b, a)))
        rows.append({"prompt": a.prompt, "chosen": chosen, "rejected": rejected})
    return [row for row in rows if row["chosen"].strip() and row["rejected"].strip()]


def train(config: RLHFConfig | DirectConfig, state: RLHFState) -> list[dict]:
    """Train the state's actor by our loops; what is kept of its records, one an iteration."""
    if isinstance(config, RLHFConfig):
        records = train_rlhf_loop(state=state)
    else:
        pairs = None if config.online else sampled_pairs(config, state)
        records = train_direct(state=state, pairs=pairs)
    history = []
    for record in records:
        history.append({key: record[key] for key in KEPT})
        advance(1)
    return history


def train_by_trl(config: RLHFConfig | DirectConfig, state: RLHFState) -> list[dict]:
    """Train the state's actor by TRL's trainer; J at some places from fresh responses, and what it took."""
    seen = []

    def after(iteration: int) -> None:
        advance(1)
        if iteration in MEASURED:
            began, actor = time.process_time(), state.models.actor
            mode = actor.training
            value = measure(state, actor.eval(), 10)[0]["value"]
            actor.train(mode)
            taken = time.process_time() - began
            seen.append({"iteration": iteration, "value": value, "cpu_seconds": taken})

    rows = state.prompts if isinstance(config, RLHFConfig) else sampled_pairs(config, state)
    train_with_trl(config, state.models, rows, after)
    return seen


def path_of(name: str, config: RLHFConfig | DirectConfig) -> Path:
    """The file of a run."""
    plain = "".join(letter if letter.isalnum() else "_" for letter in name.lower())
    beta, rate = f"beta_{config.kl_coef:g}", f"lr_{config.learning_rate:g}"
    return FOLDER / f"{plain}_{beta}_{rate}_seed_{config.seed}_{config.iterations}.json"


def make(name: str, config: RLHFConfig | DirectConfig, evaluated: int = EVALUATED) -> None:
    """Make a run and save it."""
    torch.set_num_threads(1)
    reset_peak(torch.device("cpu"))
    began = time.process_time()
    state = start_run(config, measures=MEASURES)
    state.measures = {}  # gold is measured at the end only
    by_trl = METHODS[name].trl
    history = train_by_trl(config, state) if by_trl else train(config, state)
    seconds = time.process_time() - began - sum(row.pop("cpu_seconds", 0.0) for row in history)
    spent = {"cpu_seconds": seconds, "peak_mb": peak_bytes() / 2**20}
    state.measures = MEASURES
    final, _ = measure(state, state.models.actor, evaluated)
    facts = {"method": name, "config": config.as_dict(), "final": final, "on": machine()}
    write_json(path_of(name, config), significant(facts | spent | {"history": history}))


shipped = cache(load_sweep)  # its runs are PPO's too


def recorded(name: str, config: RLHFConfig | DirectConfig) -> dict | None:
    """A run that was made, here or by the sweep; None where there is none."""
    if path_of(name, config).exists():
        return read_json(path_of(name, config))
    same = (run for run in shipped().runs if run.config == config and name == "PPO")
    return next(({"history": run.history, "final": run.final} for run in same), None)


def runs(name: str, beta: float, rate: float, seeds: tuple, iterations: int) -> list[dict]:
    """Those of these runs that are there."""
    configs = [make_config(name, beta, seed, rate, iterations) for seed in seeds]
    return [run for config in configs if (run := recorded(name, config)) is not None]


def tuned(name: str, beta: float, plan: Plan) -> tuple[float | None, dict[float, float]]:
    """The best rate, None while some are untried; J at the end of the tuning seed by rate."""

    def end_at(rate: float) -> float | None:
        found = runs(name, beta, rate, (TUNED_ON,), plan.iterations)
        return found[0]["final"]["value"] if found else None

    return best_rate(end_at) if plan.rate is None else (plan.rate, {})


def missing(methods: list[str], plan: Plan, tuning: bool) -> list[tuple[Callable, tuple]]:
    """Runs to make: those that choose the rates, or those of the chosen rates."""
    wanted = []
    for name, beta in itertools.product(methods, plan.betas):
        if METHODS[name].beta in (None, beta):
            chosen, ends = tuned(name, beta, plan)
            left = untried(ends) if plan.rate is None else ()
            rates, seeds = (left, (TUNED_ON,)) if tuning else ((chosen,), plan.seeds)
            wanted += [
                (name, make_config(name, beta, seed, rate, plan.iterations))
                for seed, rate in itertools.product(seeds, rates)
                if rate is not None
            ]
    return [(make, one) for one in wanted if recorded(*one) is None]


# --- the table ------------------------------------------------------------------------------------


def row(name: str, yardstick: Yardstick, plan: Plan) -> dict | None:
    """Means over the seeds of one method at one β; None where it has no run."""
    rate, _ = tuned(name, yardstick.beta, plan)
    found = [] if rate is None else runs(name, yardstick.beta, rate, plan.seeds, plan.iterations)
    if not found:
        return None
    curves = [yardstick.along(run["history"], plan.budgets) for run in found]
    lasts = [(run["final"]["value"], run["final"]["value_stderr"]) for run in found]
    shares = [yardstick.estimate(*last) for last in lasts]
    ends = [share.mean for share in shares]
    return {key: mean_of([run["final"] for run in found], key) for key in FINAL} | {
        "method": name,
        "beta": yardstick.beta,
        "rate": rate,
        "seeds": len(found),
        "along": {
            n: statistics.fmean(c[n] for c in curves) for n in plan.budgets if n in curves[0]
        },
        "end": statistics.fmean(ends),
        "stderr": statistics.fmean(share.stderr for share in shares) / len(shares) ** 0.5,
        "spread": statistics.stdev(ends) if len(ends) > 1 else 0.0,
        "cpu_seconds": mean_of(found, "cpu_seconds"),
        "peak_mb": mean_of(found, "peak_mb"),
    }


def mean_of(found: list[dict], key: str) -> float | None:
    """The mean over runs; None where one of them did not record it."""
    values = [one.get(key) for one in found]
    return None if None in values else statistics.fmean(values)


def best_of_n_row(yardstick: Yardstick) -> dict:
    """Best of n at the n of the highest J, from the reference's recorded samples."""
    beta = yardstick.beta
    keep_best = check_keep_best.exercise.right
    samples = [shipped().reference[name].double() for name in ("scores", "gold")]
    tried = {n: [float(x) for x in keep_best(*samples, n)[1:]] for n in NS}  # score, gold, KL
    n = max(NS, key=lambda n: tried[n][0] - beta * tried[n][2])
    score, gold, kl = tried[n]
    found = {"end": yardstick.share(score - beta * kl), "score": score, "gold": gold, "kl": kl}
    return {"method": "best of n, no training", "beta": beta, "rate": f"n = {n}"} | found


COLUMNS = {  # of the table, after those on the way
    "last policy": ("end", ".3f"),
    "± s.e.": ("stderr", ".3f"),
    "± seeds": ("spread", ".3f"),
    "proxy": ("score", ".2f"),
    "gold": ("gold", ".2f"),
    "KL": ("kl", ".2f"),
    "CPU s": ("cpu_seconds", ".0f"),
    "MB": ("peak_mb", ".0f"),
}


def print_rows(beta: float, rows: list[dict], budgets: tuple) -> None:
    """Print the table of one β: efficiency by responses, at the end with its errors; gold, KL, cost."""
    print(f"\nβ = {beta:g}")
    lines = []
    for one in rows:
        cells = [(one.get("along", {}).get(n), ".3f") for n in budgets]
        cells += [(one.get(key), form) for key, form in COLUMNS.values()]
        shown = ["–" if value is None else f"{value:{form}}" for value, form in cells]
        lines.append([one["method"], one["rate"], *shown])
    show(["responses", "rate", *(f"{RESPONSES * n:,}" for n in budgets), *COLUMNS], lines)


def colour_of(name: str) -> str:
    """TRL grey, pairs orange, best of n black, groups green, ours with a critic or without both blue."""
    families = {"TRL": REFERENCE, "DPO": GOLD, "best of": "black", "RLOO": REWARD, "GRPO": REWARD}
    return next((colour for word, colour in families.items() if word in name), POLICY)


def picture(tables: dict[float, list[dict]]) -> Picture:
    """A panel a β, a row a method, the best on top: pale on the way, dark at the end, ± seeds."""
    ends = {}
    for one in (one for rows in tables.values() for one in rows):
        ends.setdefault(one["method"], []).append(one["end"])
    order = sorted(ends, key=lambda name: statistics.fmean(ends[name]))
    figure, grid = new_figure(1, len(tables), 9.6, 1.1 + 0.27 * len(order))
    for axes, (beta, rows) in zip(grid[0], tables.items(), strict=True):
        for one in rows:
            draw_row(axes, one, order.index(one["method"]))
        axes.set_yticks(range(len(order)), order if axes is grid[0, 0] else [""] * len(order))
        axes.set_ylim(-0.6, len(order) - 0.4)
        label_axes(axes, f"β = {beta:g}", "efficiency: share of the way to J*", grid="both")
    *on_the_way, last = (f"{RESPONSES * n:,}" for n in MEASURED)
    words = f"pale: after {', '.join(on_the_way)} responses; dark: after {last}"
    figure.supxlabel(words, fontsize=9)
    return figure


def draw_row(axes: Axes, one: dict, y: int) -> None:
    """The dots of one method."""
    colour, along = colour_of(one["method"]), one.get("along", {})
    for place, n in enumerate(sorted(along), start=1):
        axes.plot(along[n], y, "o", color=colour, alpha=0.2 * place, markersize=5)
    dot = {"fmt": "o", "color": colour, "markersize": 7, "capsize": 3}
    axes.errorbar(one["end"], y, xerr=one.get("spread", 0.0), **dot)


def is_here(name: str) -> bool:
    """Whether the trainer of a method is installed."""
    return grpo_is_here() and (trl.trl_is_here() or name != TRL_PPO) if METHODS[name].trl else True


def run(plan: Plan) -> None:
    """Choose the rates, make the runs, print a table for each β and a JSON line."""
    here = [name for name in METHODS if plan.table or is_here(name)]
    methods = plan.methods or [name for name in here if name != TRL_PPO]
    while not plan.table:  # a best rate at an edge asks for one more
        tasks = missing(methods, plan, tuning=True) or missing(methods, plan, tuning=False)
        if not tasks:
            break
        run_all(tasks, plan.jobs, 1, len(tasks) * plan.iterations)
    found = {}
    for beta in plan.betas:
        yardstick = Yardstick(shipped(), beta)
        rows = [one for name in methods if (one := row(name, yardstick, plan))]
        found[beta] = [*rows, best_of_n_row(yardstick)]
        print_rows(beta, found[beta], plan.budgets)
    if plan.picture:
        picture(found).savefig(PICTURE, dpi=110)
    results = [row for rows in found.values() for row in rows]
    emit("methods", {"results": results, "tuned_on": TUNED_ON, "rates": RATES})


if __name__ == "__main__":
    command("methods", __doc__, Plan, run)
