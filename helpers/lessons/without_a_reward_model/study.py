"""DPO and IPO at several β: on a few shipped pairs, and online; measured the same way along each run.

Offline each seed has `FEW` pairs of its own, seen again and again. Online every pair is new: two
responses of the policy itself, labelled by the reward model with P(first preferred).
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from helpers.config import DirectConfig
from helpers.data import DATA, load_pairs
from helpers.direct import evaluate_pairs, train_direct
from helpers.state import RLHFState, start_run
from helpers.steps import evaluate
from helpers.studies.measure import MEASURES
from helpers.studies.study import Job, Study, StudyOptions, as_columns, as_entry, load_study
from helpers.tools.flags import setting
from helpers.tools.pool import advance
from helpers.world import reviews

FOLDER = DATA / "direct"
BETAS = (0.1, 0.3, 1.0)
IPO_BETA = 0.1
FEW = 300  # pairs of an offline run
SEEN = 100  # pairs, of those trained on and of those held out, that are measured
MEASURE_EVERY = 8  # iterations
SETTINGS = dict(batch_size=32, minibatch_size=32, learning_rate=1e-3, device="cpu")
SETTINGS |= dict(normalizer_samples=512)


def few_pairs(seed: int) -> list[dict]:
    """The pairs of an offline run: other ones on each seed."""
    return load_pairs(DirectConfig().pairs, FEW * (seed + 1))[FEW * seed :]


def measure_direct(state: RLHFState, pairs: list[dict] | None) -> tuple[dict, list[str]]:
    """One row of a run: fresh responses, one to each prompt; held-out pairs; pairs trained on.

    `score`, `gold`, `grammatical`, `kl` (nats) and `words` per response; `chosen`, `rejected`: how
    many nats a held-out response has gained over the reference, mean; `seen_chosen` … the same of
    pairs trained on, where there are any. The texts come with it.
    """
    found, texts = evaluate(state.models.actor, state, count=len(state.prompts))
    row = {"iteration": state.iteration} | {name: float(x.mean()) for name, x in found.items()}
    row["words"] = sum(len(reviews.tokenize(text)) for text in texts) / len(texts)
    held_out = load_pairs("data/pairs_test.jsonl", SEEN)
    for before, rows in (("", held_out), ("seen_", (pairs or [])[:SEEN])):
        if rows:
            stats = evaluate_pairs(state, rows)
            row[f"{before}accuracy"] = stats["accuracy"]
            for side in ("chosen", "rejected"):
                row[before + side] = stats[f"{side}_reward"] / state.config.kl_coef
    return row, texts


def train(job: Job, folder: Path, out: Path) -> dict:
    """Train one run, measured every `MEASURE_EVERY` iterations; returns its entry in `study.json`."""
    state = start_run(job.config, measures=MEASURES)
    pairs = None if job.config.online else few_pairs(job.config.seed)
    curve = [measure_direct(state, pairs)[0]]
    for record in train_direct(state=state, pairs=pairs):
        advance(1)
        if record["iteration"] % MEASURE_EVERY == 0 or record["iteration"] == job.config.iterations:
            row, texts = measure_direct(state, pairs)
            curve.append(row)
    final = {"prompts": [str(prompt) for prompt in state.prompts][::8], "texts": texts[::8]}
    return as_entry(job.kind, state.config, as_columns(curve, curve[0]), final)  # 16 of the texts


class Direct(Study):
    """The recorded runs of this study."""

    def betas(self, method: str) -> list[float]:
        """The β at which there are runs of "offline", "online" or "ipo", smallest first."""
        found = {run.config.kl_coef for run in self.runs if run.kind.startswith(f"{method}_")}
        return sorted(found)

    def ends(self, method: str, name: str) -> list[list[float]]:
        """A metric at the end of the runs: for each of the `betas`, one number a seed."""
        kinds = [f"{method}_{beta:g}" for beta in self.betas(method)]
        return [[run.history[-1][name] for run in self.of_kind(kind)] for kind in kinds]


load_direct = partial(load_study, FOLDER, Direct)


@dataclass(kw_only=True)
class DirectOptions(StudyOptions):
    """DPO and IPO at several β, on a few pairs and online."""

    name: ClassVar[str] = "direct"
    betas: list[float] = setting(list(BETAS), "KL coefficients, above 0")
    iterations: int = setting(48, "iterations of each run")

    def configs(self, seed: int) -> dict[str, DirectConfig]:
        """`offline_β` and `online_β` at each β, and `ipo_β` at one."""
        shared = SETTINGS | {"seed": seed, "iterations": self.iterations}
        found = {
            f"{name}_{beta:g}": DirectConfig(kl_coef=beta, online=name == "online", **shared)
            for name in ("offline", "online")
            for beta in self.betas
        }
        return found | {f"ipo_{IPO_BETA:g}": DirectConfig(kl_coef=IPO_BETA, loss="ipo", **shared)}

    def job(self, kind: str, config: DirectConfig) -> Job:
        """Kept are rows of measurements."""
        return Job(kind, config, whole=False, train=train)
