"""`python -m benchmarks.ppo_vs_trl`: one PPO iteration of ours, TRL's PPOTrainer and torchrl's parts.

All on the same work, interleaved in one process (TRL, ours, torchrl, the floors, TRL, …), so that a
busy moment meets all; peak memory of each in a process of its own. TRL is also shown without the
garbage collections it forces, torchrl also on the modules as the course loads them. The floor is the
bare forwards, backwards and decoding: by transformers' modules and plain. Without torchrl, it is left out.
"""

import argparse
import copy
import importlib.util
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from matplotlib.figure import Figure

from benchmarks.common import Span, emit, in_own_process, median, now, phases, show
from benchmarks.floor import Floor
from benchmarks.models import Size, make_actor, make_run
from benchmarks.tokens import TokenCounter
from helpers.kit.figures import label_axes, new_figure
from helpers.kit.palette import ACCENT, POLICY, REFERENCE
from helpers.scale.memory import MIB, peak_bytes
from helpers.state import RLHFState
from helpers.steps import iterate
from helpers.tools.command import exit_status
from helpers.tools.files import ROOT
from helpers.tools.validate import require_choice, require_count

PHASES = ("rollout", "scoring", "update", "total")
CONFIGURATIONS = ((2, 64), (2, 16), (1, 64), (1, 16))  # threads, minibatch
FLOORS = {"floor": "fused", "floor, plain PyTorch": "plain", "floor, default GELU": "default"}
TORCHRL = {"torchrl": False, "torchrl, fused GELU": True}
WARM = 2  # warm-up iterations of each, not counted
PICTURE = ROOT / "notebooks" / "images" / "speed.png"
DRAWN = {"TRL": "TRL's PPOTrainer", "torchrl": "torchrl's parts", "ours": "ours"}
DRAWN |= {"floor": "the arithmetic alone"}


def torchrl_names() -> list[str]:
    """torchrl's contestants, if it is installed."""
    return list(TORCHRL) if importlib.util.find_spec("torchrl") else []


def our_iteration(state: RLHFState) -> dict[str, Span]:
    """`helpers.steps.iterate`, taken apart: steps 1–2, 3–6, 7."""
    marks = {0: now()}
    iterate(state, lambda step, **tensors: marks.update({step: now()}))
    return phases(marks[0], marks[2], marks[6], now())


def our_trunks(state: RLHFState) -> dict:
    """The four transformers by role, for counting."""
    models = state.models
    roles = {"policy": models.actor.transformer, "critic": models.critic.trunk}
    return roles | {"reference": models.reference.transformer, "reward": models.reward.encoder}


def make_floor(size: Size, minibatch: int, kind: str) -> Floor:
    """The floor with modules as the course loads them ("fused"), as transformers does, or "plain"."""
    actor = make_actor(size, fused=kind != "default")
    return Floor(size, minibatch, actor, copy.deepcopy(actor), plain=kind == "plain")


def enter(name: str, size: Size, minibatch: int, micro: int) -> tuple[Callable[[], dict], dict]:
    """Set up a contestant: a function that runs one iteration, and its trunks by role (none for a floor)."""
    if name == "ours":
        state = make_run(size, minibatch, micro_batch_size=micro)
        return partial(our_iteration, state), our_trunks(state)
    if name in TORCHRL:
        from benchmarks.torchrl_peer import TorchRLPeer

        peer = TorchRLPeer(size, minibatch, fused=TORCHRL[name])
        return peer.iterate, peer.trunks
    return make_floor(size, minibatch, FLOORS[name]).iterate, {}


def race(size: Size, minibatch: int, rounds: int, micro: int) -> dict:
    """Run all contestants in turn, `rounds` times after a warm-up; times of phases, and work counted.

    TRL's trainer runs its own loop and calls the others in between.
    """
    from benchmarks.trl_peer import Stopwatch, make_trainer, train, trunks

    others = {n: enter(n, size, minibatch, micro) for n in ("ours", *torchrl_names(), *FLOORS)}
    counters = {name: TokenCounter(roles) for name, (_, roles) in others.items() if roles}
    taken: dict[str, list] = {name: [] for name in others}
    tokens: dict[str, dict] = {}

    def between() -> None:
        watch.stop()
        for name, (run, _) in others.items():
            taken[name].append(run())
        tokens.update({name: counter.read() for name, counter in counters.items()})
        watch.start()

    trainer = make_trainer(size, minibatch, WARM + rounds, between)
    counters = {"TRL": TokenCounter(trunks(trainer))} | counters
    watch = Stopwatch(trainer)
    train(trainer, watch)
    taken = {"TRL": watch.iterations} | taken
    return {name: spans[WARM:] for name, spans in taken.items()} | {"tokens": tokens}


def alone(who: str, size: Size, minibatch: int, micro: int, iterations: int = 4) -> dict:
    """Peak memory of one contestant in this process: before training, and after some iterations."""
    if who == "TRL":
        from benchmarks.trl_peer import Stopwatch, make_trainer, train

        trainer = make_trainer(size, minibatch, iterations, lambda: None)
        before = peak_bytes() / MIB
        train(trainer, Stopwatch(trainer))
    else:
        run, _ = enter(who, size, minibatch, micro)
        before = peak_bytes() / MIB
        for _ in range(iterations):
            run()
    return {"imported_MiB": before, "peak_MiB": peak_bytes() / MIB}


def summarize(found: dict, size: Size) -> dict:
    """Medians of every phase, spread of the total, tokens per second, ratios to TRL and the floor."""
    tokens = found.pop("tokens")
    facts = {"tokens": tokens, "contestants": {}}
    for name, iterations in found.items():
        medians = {phase: median([one[phase] for one in iterations]) for phase in iterations[0]}
        row = {f"{phase}_s": span.wall for phase, span in medians.items()}
        row |= {f"{phase}_cpu_s": span.cpu for phase, span in medians.items()}
        walls = sorted(one["total"].wall for one in iterations)
        row |= {"least_s": walls[0], "most_s": walls[-1]}
        row["tokens_per_s"] = size.batch * size.response / row["total_s"]
        facts["contestants"][name] = row
    facts["ratios"] = ratios(found)
    return facts


def ratios(found: dict) -> dict:
    """Time of ours divided by the others': medians over rounds, wall and CPU."""
    ours = [one["total"] for one in found["ours"]]
    others = {name: [one["total"] for one in found[name]] for name in found if name != "ours"}
    if "gc" in found["TRL"][0]:
        others["TRL without gc"] = [one["total"] - one["gc"] for one in found["TRL"]]
    quotients = {}
    for name, spans in others.items():
        pairs = list(zip(ours, spans, strict=True))
        quotients[name] = {
            "wall": statistics.median(a.wall / b.wall for a, b in pairs),
            "cpu": statistics.median(a.cpu / b.cpu for a, b in pairs),
        }
    return quotients


def print_race(facts: dict, title: str) -> None:
    """Print the table of one configuration."""
    print(f"\n{title}: seconds per iteration, medians")
    rows = []
    for name, row in facts["contestants"].items():
        cells = [row[f"{phase}_s"] for phase in PHASES]
        spread = f"{row['least_s']:.3f}–{row['most_s']:.3f}"
        rows.append([name, *cells, spread, row["total_cpu_s"], f"{row['tokens_per_s']:.0f}"])
        if "gc_s" in row:
            rest = row["total_s"] - row["gc_s"]
            cpu = row["total_cpu_s"] - row["gc_cpu_s"]
            rate = f"{row['tokens_per_s'] * row['total_s'] / rest:.0f}"
            rows.append(["TRL without gc", "", "", "", rest, "", cpu, rate])
    show(["", *PHASES, "least–most", "CPU s", "tokens/s"], rows)
    for name, ratio in facts["ratios"].items():
        print(f"  ours / {name}: {ratio['wall']:.2f} by wall time, {ratio['cpu']:.2f} by CPU time")
    for name, count in facts["tokens"].items():
        print(f"  {name}: {count['forward']} positions forward, {count['backward']} backward")
    for name, memory in facts.get("memory", {}).items():
        before, peak = memory["imported_MiB"], memory["peak_MiB"]
        print(f"  {name}: peak {peak:.0f} MiB in its own process, {before:.0f} before training")


def bars(axes, rows: list[tuple[str, float, float]], title: str, unit: str) -> None:
    """A bar a row, the best known name on top: its length, and the pale part at its end."""
    for y, (name, length, pale) in enumerate(reversed(rows)):
        colour = {"ours": POLICY, "floor": REFERENCE}.get(name, ACCENT)
        axes.barh(y, length - pale, color=colour, height=0.6)
        axes.barh(y, pale, left=length - pale, color=colour, height=0.6, alpha=0.4)
        axes.text(length, y, f" {length:.{0 if length > 100 else 2}f}", va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), [DRAWN[name] for name, *_ in reversed(rows)])
    axes.set_xlim(0, 1.15 * max(length for _, length, _ in rows))
    label_axes(axes, title, unit)


def picture(facts: dict) -> Figure:
    """Time and memory of an iteration in one configuration; pale: the collections that TRL forces."""
    figure, (axes,) = new_figure(1, 2, 9.0, 2.2)
    times = {n: row for n in DRAWN if (row := facts["contestants"].get(n)) is not None}
    seconds = [(name, row["total_s"], row.get("gc_s", 0.0)) for name, row in times.items()]
    bars(axes[0], seconds, "Time (pale: forced garbage collection)", "seconds an iteration")
    peaks = {n: row["peak_MiB"] for n in DRAWN if (row := facts["memory"].get(n)) is not None}
    bars(axes[1], [(n, peak, 0.0) for n, peak in peaks.items()], "Peak memory", "MiB")
    return figure


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Command-line options; `--worker` is used by child processes only."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ppo_vs_trl", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="measured iterations of each (10)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--minibatches", type=int, nargs="+", default=[64, 16])
    parser.add_argument("--micro", type=int, default=64, help="our micro_batch_size (64)")
    parser.add_argument("--batch", type=int, default=64, help="responses per iteration (64)")
    parser.add_argument("--picture", type=Path, nargs="?", const=PICTURE, help=f"({PICTURE.name})")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    require_choice("--worker", options.worker, ("", "race", "TRL", "ours", *TORCHRL))
    for name in ("rounds", "micro", "batch"):
        require_count(f"--{name}", getattr(options, name))
    return options


def work(options: argparse.Namespace) -> None:
    """Work of a child process: one race, or one contestant alone."""
    torch.set_num_threads(options.threads[0])
    size, minibatch = Size(batch=options.batch), options.minibatches[0]
    if options.worker == "race":
        found = race(size, minibatch, options.rounds, options.micro)
        emit("race", summarize(found, size))
    else:
        emit("alone", alone(options.worker, size, minibatch, options.micro))


def ask(options: argparse.Namespace, worker: str, threads: int, minibatch: int) -> dict:
    """Run one part in a child process."""
    shared = ("--rounds", options.rounds, "--micro", options.micro, "--batch", options.batch)
    chosen = ("--worker", worker, "--threads", threads, "--minibatches", minibatch)
    return in_own_process("benchmarks.ppo_vs_trl", *shared, *chosen)


def run(arguments: list[str] | None) -> None:
    """Command line: a table for every configuration, then one JSON line."""
    options = parse(arguments)
    if options.worker:
        return work(options)
    everything = {}
    if not torchrl_names():
        print("torchrl is left out: pip install -r benchmarks/requirements.txt -c constraints.txt")
    names = ("TRL", "ours", *torchrl_names())
    for threads in options.threads:
        for minibatch in options.minibatches:
            facts = ask(options, "race", threads, minibatch)
            facts["memory"] = {w: ask(options, w, threads, minibatch) for w in names}
            print_race(facts, f"{threads} thread(s), minibatch {minibatch}")
            everything[f"{threads} threads, minibatch {minibatch}"] = facts
    if options.picture is not None:  # of the first configuration
        picture(next(iter(everything.values()))).savefig(options.picture, dpi=110)
        print(f"wrote {options.picture}")
    emit("ppo_vs_trl", everything)
    return None


if __name__ == "__main__":
    sys.exit(exit_status(lambda: run(None), "Stopped."))
