"""`python -m helpers.sweeps`: the same training at many β and several seeds, measured and kept.

Real runs: nothing is smoothed or selected. Kill it whenever you like; `--resume` goes on from the
last checkpoint of each run. A run's numbers depend on its seed, and on the machine in the last digits.
"""

import argparse
import shutil
import sys
from pathlib import Path

from safetensors.torch import save_file

from helpers.config import RLHFConfig
from helpers.jobs import origin, parse_study, run_study, study_parser, study_status
from helpers.measure import EVALUATED, MEASURES, REFERENCE_SAMPLES, measure, sample_reference
from helpers.realign import RealignedPolicy, mixing_weight
from helpers.runs import RECORD, significant, take_snapshot
from helpers.state import start_run
from helpers.storage import atomic_file, read_json, refresh_manifest, verify, write_json
from helpers.studies import BETAS, beta_study
from helpers.sweep_results import (
    FOLDER,
    REFERENCE,
    SUMMARY,
    Sweep,
    load_policy,
    load_sweep,
    print_table,
    table,
)
from helpers.validate import require_number
from helpers.workers import report, run_all


def realignments(betas: list[float]) -> list[tuple[float, float]]:
    """(anchor, wanted) pairs: each trained β from either neighbour, and what lies between two."""
    trained = sorted(beta for beta in betas if beta > 0)
    pairs = list(zip(trained, trained[1:], strict=False))
    checks = [(low, high) for low, high in pairs] + [(high, low) for low, high in pairs]
    # from the larger β: measured from either side, going a little further beats coming back
    return checks + [(high, significant((low * high) ** 0.5, 2)) for low, high in pairs]


def measure_realigned(out: Path, anchor: float, wanted: float) -> dict:
    """A trained policy mixed with the reference so as to stand for another β: measured, sampled."""
    state = start_run(RLHFConfig(kl_coef=wanted, device="cpu"), measures=MEASURES)
    weight = mixing_weight(anchor, wanted)
    load_policy(state.models.actor, anchor, out)
    mixed = RealignedPolicy(state.models.actor, state.models.reference, weight)
    found, _ = measure(state, mixed, EVALUATED // 4)
    state.models.actor = mixed
    samples = take_snapshot(state).samples
    kept = {prompt: [vars(sample) for sample in rows] for prompt, rows in samples.items()}
    report(1)
    return {"anchor": anchor, "kl_coef": wanted, "weight": weight} | found | {"samples": kept}


def provide_reference(out: Path, per_prompt: int = REFERENCE_SAMPLES) -> None:
    """The reference's samples: those shipped, where they are; else drawn anew (about ten minutes)."""
    with atomic_file(out / REFERENCE) as temporary:
        if (FOLDER / REFERENCE).exists():
            verify(FOLDER / REFERENCE)
            shutil.copyfile(FOLDER / REFERENCE, temporary)
        else:
            state = start_run(RLHFConfig(device="cpu"))
            save_file(sample_reference(state, per_prompt), temporary)


def finished(out: Path) -> list[tuple[float, int]]:
    """(β, seed) of every run that has its result in this folder."""
    configs = [read_json(path, ("config",))["config"] for path in out.glob(f"beta_*/{RECORD}")]
    return sorted((config["kl_coef"], config["seed"]) for config in configs)


def mixtures(options: argparse.Namespace) -> list[dict]:
    """Every realignment the runs of seed 0 allow; measured, unless an earlier `sweep.json` has it."""
    path = options.out / SUMMARY
    known = read_json(path, ("realigned",))["realigned"] if path.exists() else []
    found = {(row["anchor"], row["kl_coef"]): row for row in known}
    pairs = realignments([beta for beta, seed in finished(options.out) if seed == 0])
    missing = [pair for pair in pairs if pair not in found]
    tasks = [(measure_realigned, (options.out, *pair)) for pair in missing]
    if tasks:
        rows = run_all(tasks, options.jobs, options.threads, len(tasks), "mixture")
        found |= dict(zip(missing, rows, strict=True))
    return [found[pair] for pair in pairs]


def summarize(options: argparse.Namespace, realigned: list[dict]) -> Sweep:
    """Write `sweep.json`: which runs there are, how they were made, what mixing them gives."""
    facts = origin(options) | {
        "prompts": start_run(RLHFConfig(device="cpu")).prompts,
        "runs": finished(options.out),
        "realigned": significant(realigned),
    }
    write_json(options.out / SUMMARY, facts)
    refresh_manifest(options.out)
    return load_sweep(options.out)


def run(arguments: list[str] | None) -> None:
    """Whatever is left to do: reference samples, runs, realignments; then the table."""
    parser = study_parser("sweeps", __doc__)
    parser.add_argument("--betas", type=float, nargs="+", default=list(BETAS))
    parser.add_argument("--iterations", type=int, default=100)
    options = parse_study(parser, "sweeps", arguments)
    for beta in options.betas:
        require_number("--betas", beta, low=0.0, wants="finite numbers of at least 0")
    study = beta_study(options.betas, options.seeds, options.iterations)
    there = (options.out / REFERENCE).exists()
    first = [] if there else [(provide_reference, (options.out,))]
    run_study(study, options, lambda name: {"keep_policy": name.endswith("seed_0")}, first)
    print_table(table(summarize(options, mixtures(options))))
    if options.out.resolve() != FOLDER.resolve() and (FOLDER / SUMMARY).exists():
        print("\nThe shipped sweep:")
        print_table(table(load_sweep()))


if __name__ == "__main__":
    sys.exit(study_status(run, None))
