"""The drift page: one HTML file with a sweep's records in it, drawn by its own script, without a kernel."""

import base64
import copy
import json
import math
import warnings
import zlib
from html import escape
from itertools import product
from pathlib import Path
from string import Template

import torch
from IPython.display import HTML

from helpers.experiments.beta_sweep import Sweep, load_sweep
from helpers.experiments.drift import Drift
from helpers.experiments.runs import Run, Sample, Snapshot, significant
from helpers.models import load_tokenizer
from helpers.plots import palette
from helpers.sampling import plain_tokens
from helpers.theory.optimum import Optimum
from helpers.tools.files import write_text

PARTS = Path(__file__).parent / "page"
SCRIPTS = (  # one scope
    "records.js",
    "story.js",
    "plane.js",
    "words.js",
    "ship.js",
    "picture.js",
    "tour.js",
    "policy.js",
    "try.js",
    "controls.js",
)
COLOURS = {
    "policy": palette.POLICY,
    "reference": palette.REFERENCE,
    "proxy": palette.REWARD,
    "gold": palette.GOLD,
    "best": palette.KL,
}
NEXT_WORDS = 8  # of the most likely ones; all others are one more row
LEAST_DISAGREEMENT = 0.1  # of proxy and of gold, for a pair of texts to be asked about


def per_mille(probs: torch.Tensor, tokens: list[int]) -> list[int]:
    """Probabilities of these tokens, in thousandths."""
    return [round(1000 * float(probs[token])) for token in tokens]


def sample_facts(sample: Sample, words: dict[str, int]) -> list:
    """One response: [proxy, gold, number of each token, log π − log π_ref of each in tenths of a nat]."""
    numbers = [words.setdefault(token, len(words)) for token in sample.tokens]
    return [sample.score, sample.gold, numbers, [round(10 * x) for x in sample.drift]]


def snapshot_facts(
    shot: Snapshot, prompts: list[str], rows: list[list[int]], words: dict[str, int]
) -> dict:
    """A snapshot: samples and next-word probabilities, by prompt. In float64: any machine rounds alike."""
    probs = [shot.next_logprobs[prompt].double().exp() for prompt in prompts]
    return {
        "iteration": shot.iteration,
        "samples": [[sample_facts(s, words) for s in shot.samples[prompt]] for prompt in prompts],
        "next": [per_mille(p, tokens) for p, tokens in zip(probs, rows, strict=True)],
    }


def run_facts(drift: Drift, run: Run, rows: list[list[int]], words: dict[str, int]) -> dict:
    """A run: proxy, gold and KL of the policy after 0, 1, … updates, and its snapshots."""
    curves = drift.curves_of(run.config.kl_coef, run.config.seed)
    measured = {
        name: [None if math.isnan(x) else x for x in curves[name]]
        for name in ("proxy", "gold", "kl")
    }
    shots = [snapshot_facts(shot, drift.prompts, rows, words) for shot in run.snapshots]
    return measured | {"shots": shots}


def optimum_facts(drift: Drift, best: Optimum | None, beta: float, rows: list) -> dict | None:
    """J*, KL and score of π* at this β, and its next words where known; None where it is not."""
    if best is None:
        return None
    found = [drift.first_token(prompt, beta)[0] for prompt in drift.prompts]
    known = zip(found, rows, strict=True)
    return {
        "value": significant(best.value),
        "kl": significant(best.kl),
        "score": significant(best.score),
        "next": [None if probs is None else per_mille(probs, tokens) for probs, tokens in known],
    }


def disagreements(sweep: Sweep, prompt: str) -> list[tuple]:
    """Pairs of last samples that proxy and gold order differently: (by how much, proxy's, gold's).

    A sample is named by (β, seed, its number); the widest disagreement comes first.
    """
    texts = [
        ((run.config.kl_coef, run.config.seed, number), sample)
        for run in sweep.runs
        if run.snapshots
        for number, sample in enumerate(run.snapshots[-1].samples[prompt])
    ]
    found = []
    for (one, a), (other, b) in product(texts, texts):
        gap = min(a.score - b.score, b.gold - a.gold)
        if gap > LEAST_DISAGREEMENT:
            found.append((gap, one, other))
    return sorted(found, reverse=True)


def rounds(drift: Drift) -> list[list]:
    """Pairs to choose from blind: for each prompt [prompt, proxy's text, gold's text], as numbers.

    The text that the proxy prefers comes from another β in each round while there is one.
    """
    betas, seeds, asked, used = drift.sweep.betas, drift.sweep.shown_seeds, [], set()
    for row, prompt in enumerate(drift.prompts):
        pairs = disagreements(drift.sweep, prompt)
        fresh = [pair for pair in pairs if pair[1][0] not in used] or pairs
        if fresh:
            _, *two = fresh[0]
            used.add(two[0][0])
            asked.append([row] + [[betas.index(b), seeds.index(s), n] for b, s, n in two])
    return asked


def page_facts(sweep: Sweep, vocabulary: list[str], policies: list[str] = ()) -> dict:
    """All that the page shows, as plain values; nothing is smoothed or selected.

    `policies` are the names of those that lie beside the page (`page_policies.py`).
    """
    drift, words = Drift(sweep), {}
    rows = [drift.likely_tokens(prompt, NEXT_WORDS) for prompt in drift.prompts]
    runs = [
        [run_facts(drift, sweep.run(beta, seed), rows, words) for seed in sweep.shown_seeds]
        for beta in sweep.betas
    ]
    best = [optimum_facts(drift, drift.optimum(b), b, rows) for b in sweep.betas]
    return {
        "betas": sweep.betas,
        "seeds": sweep.shown_seeds,
        "prompts": drift.prompts,
        "words": list(words),
        "runs": runs,
        "start": significant(sweep.reference_value.mean),
        "optima": best,
        "frontier": significant([[point.kl, point.score] for point in drift.frontier()]),
        "nextWords": [[vocabulary[token] for token in tokens] for tokens in rows],
        "rounds": rounds(drift),
        "policies": list(policies),
        "command": sweep.facts.get("command", ""),
    }


def script_json(facts: dict) -> str:
    """JSON that may stand in a script element: no "<", so that nothing in it can end the element."""
    text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def part(name: str) -> str:
    """A file of the page."""
    return (PARTS / name).read_text("utf-8")


def page(facts: dict, embedded: bool = False) -> str:
    """The whole page as HTML; it asks no network for anything.

    `embedded`: for a notebook's frame, without headline and link, the records compressed.
    """
    colours = "".join(f"--{name}:{colour};" for name, colour in COLOURS.items())
    return Template(part("page.html")).substitute(
        attributes=" data-embedded" if embedded else "",
        style=f":root{{{colours}}}\n{part('page.css')}",
        script="\n".join(part(name) for name in SCRIPTS),
        datatype="text/plain" if embedded else "application/json",
        data=packed(facts) if embedded else script_json(facts),
    )


def packed(facts: dict) -> str:
    """JSON, compressed (zlib) and in base64."""
    text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def fewer(facts: dict, seed: int = 0, samples: int = 2) -> dict:
    """The same page's facts with one seed (by its place) and so many samples of each snapshot."""
    runs = [[copy.deepcopy(row[seed])] for row in facts["runs"]]
    for shot in (shot for (run,) in runs for shot in run["shots"]):
        shot["samples"] = [rows[:samples] for rows in shot["samples"]]
    kept = [
        [prompt, *([beta, 0, n] for beta, _, n in two)]
        for prompt, *two in facts["rounds"]
        if all(at == seed and n < samples for _, at, n in two)
    ]
    return facts | {"runs": runs, "seeds": [facts["seeds"][seed]], "rounds": kept}


def frame(html: str, height: int = 760) -> str:
    """A page in a frame of its own, for a notebook's output: it needs no kernel.

    The frame runs scripts and may save a file; it cannot reach the notebook around it.
    """
    return (
        f'<iframe title="Move β: drift explorer" sandbox="allow-scripts allow-downloads"'
        f' style="width:100%;height:{height}px;border:0" srcdoc="{escape(html)}"></iframe>'
    )


def read_facts(sweep: Sweep | None = None, policies: list[str] = ()) -> dict:
    """`page_facts` of a sweep, by default the shipped one."""
    sweep = sweep or load_sweep()
    tokenizer = load_tokenizer(sweep.runs[0].config.actor)
    vocabulary = plain_tokens(tokenizer, list(range(Drift(sweep).vocabulary_size)))
    return page_facts(sweep, vocabulary, policies)


def show_page(sweep: Sweep | None = None, samples: int = 2, height: int = 760) -> HTML:
    """The page as a notebook's output: its first seed. It works without a kernel, in a saved notebook too."""
    html = page(fewer(read_facts(sweep), samples=samples), embedded=True)
    with warnings.catch_warnings():  # IPython would rather have its IFrame, which needs a file
        warnings.simplefilter("ignore", UserWarning)
        return HTML(frame(html, height))


def export(path: Path, sweep: Sweep | None = None, policies: list[str] = ()) -> None:
    """Write the page of a sweep (by default the shipped one) to this file; `policies` lie beside it."""
    write_text(path, page(read_facts(sweep, policies)))
