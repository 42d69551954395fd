"""The drift page: one HTML file with a sweep's records in it, drawn by its own script, without a kernel."""

import base64
import copy
import json
import math
import warnings
import zlib
from collections.abc import Sequence
from html import escape
from itertools import product
from pathlib import Path
from string import Template

import torch
from IPython.display import HTML

from helpers.kit.style import part, tokens
from helpers.models import load_tokenizer
from helpers.page.gold import gold_facts
from helpers.sampling import plain_tokens
from helpers.studies.beta_sweep import Sweep, load_sweep
from helpers.studies.drift import COLUMNS, Drift, SliderStop, run_curves
from helpers.studies.runs import Run, Sample, Snapshot, significant
from helpers.tools.files import write_text

PARTS = (
    "python gold records story plane words ship picture tour policy points try train/panel inspector controls"
).split()
SCRIPTS = [f"{name}.js" for name in PARTS]  # one scope
# the page's own model code, a script apart: the worker that trains is made of its text
ENGINE = [f"train/{name}.js" for name in "kernel gpt reward own rloo inspect worker".split()]
HEIGHT = 760  # pixels of a frame in a notebook
STILL_WORDS = "How far the policy went (KL), and what it got: its proxy and its gold score"
# in the notebook around the frame: tell its theme, put away the still picture
ON_LOAD = (
    "const light = document.body.dataset.jpThemeLight;"
    "if (light) this.contentWindow.postMessage({theme: light === 'true' ? 'light' : 'dark'}, '*');"
    "if (this.nextElementSibling?.tagName === 'IMG') this.nextElementSibling.style.display = 'none'"
)
RECORDS = '<script type="application/json" id="records-{}">{}</script>'
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
    """A snapshot: samples and next-word probabilities, by prompt; none of a prompt that was not asked.

    In float64: any machine rounds alike.
    """
    samples, after = [], []
    for prompt, row in zip(prompts, rows, strict=True):
        logprobs = shot.next_logprobs.get(prompt)
        samples.append([sample_facts(sample, words) for sample in shot.samples.get(prompt, [])])
        after.append(None if logprobs is None else per_mille(logprobs.double().exp(), row))
    return {"iteration": shot.iteration, "samples": samples, "next": after}


def run_facts(run: Run, prompts: list[str], rows: list[list[int]], words: dict[str, int]) -> dict:
    """A run: proxy, gold and KL of the policy after 0, 1, … updates, and its snapshots."""
    curves = run_curves(run)
    measured = {name: [None if math.isnan(x) else x for x in curves[name]] for name in COLUMNS}
    return measured | {"shots": [snapshot_facts(s, prompts, rows, words) for s in run.snapshots]}


def optimum_facts(drift: Drift, beta: float, rows: list) -> dict | None:
    """J*, KL and score of π* at this β, and its next words where known; None where it is not."""
    best = drift.optimum(beta)
    if best is None:
        return None
    found = [drift.first_token(prompt, beta) for prompt in drift.prompts]
    known = zip(found, rows, strict=True)
    after = [None if probs is None else per_mille(probs, tokens) for probs, tokens in known]
    return significant({"value": best.value, "kl": best.kl, "score": best.score}) | {"next": after}


def disagreements(sweep: Sweep, prompt: str) -> list[tuple]:
    """Pairs of last samples that proxy and gold order differently: (by how much, proxy's, gold's).

    A sample is named by (β, seed, its number); the widest disagreement comes first.
    """
    texts = [
        ((run.config.kl_coef, run.config.seed, number), sample)
        for run in sweep.runs
        if run.snapshots
        for number, sample in enumerate(run.snapshots[-1].samples[prompt])
        if sample.gold is not None
    ]
    found = []
    for (one, a), (other, b) in product(texts, texts):
        gap = min(a.score - b.score, b.gold - a.gold)
        if gap > LEAST_DISAGREEMENT:
            found.append((gap, one, other))
    return sorted(found, reverse=True)


def rounds(drift: Drift) -> list[list]:
    """Pairs to choose from blind: for each prompt [prompt, proxy's text, gold's text].

    A text is [place of its β, place of its seed, its number]. The one that the proxy prefers comes
    from another β in each round while there is one.
    """
    sweep, asked, used = drift.sweep, [], set()
    for row, prompt in enumerate(drift.prompts):
        pairs = disagreements(sweep, prompt)
        fresh = [pair for pair in pairs if pair[1][0] not in used] or pairs
        if fresh:
            _, *two = fresh[0]
            used.add(two[0][0])
            places = (
                [sweep.betas.index(beta), sweep.shown_seeds.index(seed), number]
                for beta, seed, number in two
            )
            asked.append([row, *places])
    return asked


def other_ends(sweep: Sweep) -> list[dict]:
    """Where the runs end whose seeds the page has no texts of."""
    return [
        {"beta": run.config.kl_coef, "seed": run.config.seed}
        | {name: run.final[column] for name, column in COLUMNS.items()}
        for run in sweep.runs
        if run.config.seed not in sweep.shown_seeds
    ]


class PageRecords:
    """What the page is told: a sweep's records first (`facts`), then the runs that join (`joined`).

    Plain values; nothing is smoothed or selected. `words` numbers the tokens in the order met.
    """

    def __init__(self, drift: Drift):
        self.drift, self.words = drift, {}
        self.rows = [drift.likely_tokens(prompt, NEXT_WORDS) for prompt in drift.prompts]
        tokenizer = load_tokenizer(drift.sweep.runs[0].config.actor)
        self.next_words = [plain_tokens(tokenizer, tokens) for tokens in self.rows]

    def facts(self, policies: Sequence[str] = ()) -> dict:
        """All that the page shows; `policies` lie beside it, by name (`page_policies.py`)."""
        drift, sweep = self.drift, self.drift.sweep
        runs = [[self._run(sweep.run(b, seed)) for seed in sweep.shown_seeds] for b in sweep.betas]
        best = [optimum_facts(drift, b, self.rows) for b in sweep.betas]
        return {
            "betas": sweep.betas,
            "seeds": sweep.shown_seeds,
            "prompts": drift.prompts,
            "words": list(self.words),
            "runs": runs,
            "otherEnds": significant(other_ends(sweep)),
            "start": significant(sweep.reference_value.mean),
            "optima": best,
            "frontier": significant([[point.kl, point.score] for point in drift.frontier()]),
            "nextWords": self.next_words,
            "rounds": rounds(drift),
            "gold": gold_facts(),
            "policies": list(policies),
            "command": sweep.facts.get("command", ""),
        }

    def joined(self) -> dict:
        """The runs that have joined, as far as they have come, and the words now known."""
        runs = [self._joined(stop) for stop in self.drift.added]
        return {"words": list(self.words), "runs": runs}

    def _joined(self, stop: SliderStop) -> dict:
        best = None if stop.own_reward else optimum_facts(self.drift, stop.kl_coef, self.rows)
        return {
            "key": stop.key,
            "label": stop.label,
            "beta": stop.kl_coef,
            "ownReward": stop.own_reward,
            "optimum": best,
            "run": significant(self._run(stop.run)),
        }

    def _run(self, run: Run) -> dict:
        return run_facts(run, self.drift.prompts, self.rows, self.words)


def script_json(facts: dict) -> str:
    """JSON that may stand in a script element: no "<", so that nothing in it can end the element."""
    text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def page(facts: dict, embedded: bool = False, second: dict | None = None) -> str:
    """The whole page as HTML; it asks no network for anything.

    `embedded`: for a notebook's frame, without headline and link, and packed. `second`: records of
    another world, which the page shows where its address says `world=` and this name.
    """
    html = Template(part("page.html")).substitute(
        attributes=" data-embedded" if embedded else "",
        style=f"{tokens(':root')}\n{part('page.css')}",
        engine="\n".join(part(name) for name in ENGINE),
        script="\n".join(part(name) for name in SCRIPTS),
        data=script_json(facts),
        second="" if second is None else RECORDS.format(second["world"], script_json(second)),
    )
    if not embedded:
        return html
    packed = base64.b64encode(zlib.compress(html.encode(), 9)).decode()
    return Template(part("shell.html")).substitute(packed=packed)


def fewer(facts: dict, samples: int = 2) -> dict:
    """The same page's facts with the first seed alone and so many samples of each snapshot."""
    runs = [[copy.deepcopy(row[0])] for row in facts["runs"]]
    for shot in (shot for (run,) in runs for shot in run["shots"]):
        shot["samples"] = [rows[:samples] for rows in shot["samples"]]
    seen = [pair for pair in facts["rounds"] if all(s == 0 and n < samples for _, s, n in pair[1:])]
    return facts | {"runs": runs, "seeds": facts["seeds"][:1], "rounds": seen}


def frame(html: str, still: bytes, key: str = "") -> str:
    """A page in a frame of its own, for a notebook's output: it needs no kernel.

    The frame runs scripts and may save a file; it cannot reach the notebook around it, which tells it
    its theme. Where no frame may stand, the `still` (a PNG) is seen. `key` is the frame's id.
    """
    name = f' id="{key}"' if key else ""
    picture = base64.b64encode(still).decode()
    return (
        f'<iframe{name} title="Move β: drift explorer" sandbox="allow-scripts allow-downloads"'
        f' style="width:100%;height:{HEIGHT}px;border:0" onload="{escape(ON_LOAD)}"'
        f' srcdoc="{escape(html)}"></iframe>'
        f'<img alt="{STILL_WORDS}" src="data:image/png;base64,{picture}">'
    )


def plain_html(markup: str) -> HTML:
    """Markup as a cell's output; IPython would rather have its IFrame, which needs a file."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return HTML(markup)


def export(
    path: Path,
    sweep: Sweep | None = None,
    policies: Sequence[str] = (),
    second: dict | None = None,
) -> None:
    """Write the page of a sweep (by default the shipped one) to this file; `policies` lie beside it.

    `second`: records of another world, see `page`.
    """
    records = PageRecords(Drift(sweep or load_sweep()))
    write_text(path, page(records.facts(policies), second=second))
