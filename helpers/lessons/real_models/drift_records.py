"""The drift page's second world: the runs of `reward_study.py` at every β, as records of the page.

Before an update the page has the means of its rollout; where held-out openings were measured, theirs.
"""

import tomllib
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from numpy import interp
from transformers.convert_slow_tokenizer import bytes_to_unicode

from helpers.lessons.real_models.review_gold import openings
from helpers.lessons.real_models.reward_study import (
    ANSWERS,
    BETAS,
    PROMPTS,
    SHOWN,
    RealReward,
    RealRewardOptions,
)
from helpers.page.drift_page import other_ends, run_facts
from helpers.studies.beta_sweep import Sweep, beta_kind
from helpers.studies.runs import Run, Sample, Snapshot, significant
from helpers.studies.study import recorded_command

WORLD = "real"  # as the page's address names it
ASKED = openings(held_out=True)[:: SHOWN // ANSWERS]  # whose responses are kept
GLUE = "\u2060"  # before a token that no blank parts from the one before
# a letter of the tokenizer's vocabulary → bytes; `plain_tokens` has put blanks and line ends there
BYTES = {letter: bytes([byte]) for byte, letter in bytes_to_unicode().items()}
BYTES |= {" ": b" ", "⏎": "⏎".encode()}
TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def plain_piece(token: str) -> str:
    """A token of a byte-level tokenizer as the page has it: its own letters, glued or without its blank."""
    text = b"".join(BYTES[letter] for letter in token).decode(errors="replace")
    return text[1:] if text.startswith(" ") else GLUE + text


def snapshot(row: dict) -> Snapshot:
    """The texts kept at one measurement, their tokens as the page has them."""
    plain = [s | {"tokens": list(map(plain_piece, s["tokens"]))} for s in row["samples"]]
    kept = {prompt: [Sample(**one)] for prompt, one in zip(ASKED, plain, strict=True)}
    return Snapshot(row["iteration"], kept, {})


def page_sweep(study: RealReward) -> Sweep:
    """The runs over β, with held-out means where there are any; texts only of seeds with every β."""
    runs = [run for beta in sorted(BETAS) for run in study.of_kind(beta_kind(beta))]
    seeds, found = [run.config.seed for run in runs], []
    for run, seed in zip(runs, seeds, strict=True):
        rows = {row["iteration"]: row for row in study.rows(run.kind, seed)}
        history = [rows.get(i, record) for i, record in enumerate(run.history)]
        shots = list(map(snapshot, rows.values())) if seeds.count(seed) == len(BETAS) else []
        final = run.final | rows[len(history)]
        found.append(replace(run, history=history, snapshots=shots, final=final))
    return Sweep(found, {}, {})


def page_run(run: Run, words: dict[str, int]) -> dict:
    """A run's records, with J*, KL and score of π* on its own seed's reward model (None: not known).

    `smooth` is gold in straight lines between held-out means; lines and sentences go by these, since
    the means of 32 responses jump.
    """
    facts = run_facts(run, ASKED, [[]] * len(ASKED), words)
    gold, measured = facts["gold"], [shot.iteration for shot in run.snapshots]
    smooth = interp(range(len(gold)), measured, [gold[at] for at in measured]).tolist()
    facts |= {"heldOut": measured, "smooth": significant(smooth), "optimum": None}
    if "optimum" in run.final:
        value, kl = run.final["optimum"]["mean"], run.final["optimum_kl"]
        score = significant(value + run.config.kl_coef * kl)
        facts["optimum"] = {"value": value, "kl": kl, "score": score}
    return facts


def texts(sweep: Sweep) -> dict[str, str]:
    """What the page says of this world, with the J that the runs of its first seed end at, beside J*."""
    runs = [run for run in sweep.runs if "optimum" in run.final and run.snapshots]
    ends = [
        f"{run.final['value']['mean']:.2f} (β = {run.config.kl_coef:g})"
        for run in runs
        if run.config.seed == sweep.shown_seeds[0]
    ]
    best = f", on {PROMPTS} of the 48 openings: there J ends at {' and '.join(ends)}. A dash: not known."
    error = max(run.final["optimum"]["stderr"] for run in runs)
    small = "; small: runs of another seed, with a reward model of its own"
    others = "" if all(run.snapshots for run in sweep.runs) else small
    return TEXTS | {"best": best, "error": f"± {error:.2f}", "others": others}


def real_records(study: RealReward) -> dict:
    """All that the page shows of the study; what was not recorded (next words, a frontier) is empty."""
    sweep, words = page_sweep(study), {}
    seeds, nothing = sweep.shown_seeds, ("frontier", "nextWords", "rounds", "policies")
    return dict.fromkeys(nothing, []) | {
        "world": WORLD,
        "betas": sweep.betas,
        "seeds": seeds,
        "prompts": ASKED,
        "runs": [
            [page_run(sweep.run(beta, seed), words) for seed in seeds] for beta in sweep.betas
        ],
        "words": list(words),
        "otherEnds": significant(other_ends(sweep)),
        "start": significant(fmean(sweep.run(0.0, seed).history[0]["score"] for seed in seeds)),
        "optima": [None] * len(sweep.betas),  # each run has its own
        "gold": None,
        "texts": texts(sweep),
        "command": recorded_command(RealRewardOptions()),
    }
