"""DPO and IPO at several β: on a few shipped pairs, and online; measured the same way along each run.

Offline each seed has `FEW` pairs of its own, seen again and again. Online every pair is new: two
responses of the policy itself, labelled by the reward model with P(first preferred).
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from helpers.config import DirectConfig
from helpers.data import load_pairs
from helpers.direct import evaluate_pairs, iterate_direct
from helpers.pairs import load_data
from helpers.state import RLHFState, start_run
from helpers.steps import evaluate
from helpers.studies.measure import MEASURES
from helpers.studies.runs import Run, as_history, train_measured
from helpers.studies.study import Job, Study, StudyOptions, loader

BETAS = (0.1, 0.3, 1.0)
IPO_BETA = 0.1
FEW = 300  # pairs of an offline run
HELD_OUT = 100  # pairs that are measured
MEASURE_EVERY = 8  # iterations
SETTINGS = dict(batch_size=32, minibatch_size=32, learning_rate=1e-3, device="cpu")
SETTINGS |= dict(normalizer_samples=512)


def few_pairs(seed: int) -> list[dict]:
    """The pairs of an offline run: other ones on each seed."""
    return load_pairs(DirectConfig().pairs, FEW * (seed + 1))[FEW * seed :]


def measure_direct(state: RLHFState) -> dict:
    """A row of a run: fresh responses, one to each prompt; held-out pairs.

    `score`, `gold`, `grammatical`, `kl` (nats) per response; `chosen`, `rejected`: how many nats a
    held-out response has gained over the reference, mean.
    """
    found, _ = evaluate(state.models.actor, state, count=len(state.prompts))
    row = {name: float(x.mean()) for name, x in found.items()}
    stats = evaluate_pairs(state, load_pairs("data/pairs_test.jsonl", HELD_OUT))
    gained = {x: stats[f"{x}_reward"] / state.config.kl_coef for x in ("chosen", "rejected")}
    return row | {"accuracy": stats["accuracy"]} | gained


def train(job: Job, folder: Path) -> Run:
    """A run whose records are rows of measurements."""
    state = start_run(job.config, measures=MEASURES)
    data = None if job.config.online else load_data(state, few_pairs(job.config.seed))
    step, first = partial(iterate_direct, data=data), measure_direct(state)
    run = train_measured(state, measure_direct, MEASURE_EVERY, step, first=first)
    count = len(state.prompts)
    _, texts = evaluate(state.models.actor, state, count)  # those of the last row
    final = {"prompts": list(map(str, state.prompts[::8])), "texts": texts[::8]}
    return Run(state.config, as_history(run.final["curve"]), final=final)


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


load_direct = loader("direct", Direct)


class DirectOptions(StudyOptions, name="direct", iterations=48):
    """DPO and IPO at several β, on a few pairs and online."""

    def jobs_on(self, seed: int) -> Iterator[Job]:
        """`offline_β` and `online_β` at each β, and `ipo_β` at one."""
        kinds = [(way, beta) for way in ("offline", "online") for beta in BETAS]
        for way, beta in (*kinds, ("ipo", IPO_BETA)):
            how = {"online": way == "online", "loss": "ipo" if way == "ipo" else "dpo"}
            how |= SETTINGS | {"seed": seed, "iterations": self.iterations}
            yield Job(f"{way}_{beta:g}", DirectConfig(kl_coef=beta, **how), train)
