"""Held-out prompts: measured along a run, and the best policy on them kept."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import torch

from helpers.models import has_adapter
from helpers.prompts import as_prompts, as_rows, last_message
from helpers.scale.export import save_policy
from helpers.state import RLHFState
from helpers.steps import evaluate
from helpers.tools.files import read_json, read_jsonl, write_json, write_jsonl
from helpers.tools.noise import FROM_CHANCE, below_0, change, from_chance
from helpers.tools.parallel import rank
from helpers.tools.validate import require, require_count, require_number

BEST, ROWS, TEXTS = "best", "held_out.json", "texts"  # in a run's folder
SHARE, LEAST = 0.1, 10  # of the prompts, held out by default; fewer prompts are all trained on
SAMPLES = 64  # responses a measurement
FEW = 10  # held-out prompts: with fewer, what is measured is of these prompts and not of others


def split_prompts(rows: list, share: float = SHARE, seed: int = 0) -> tuple[list, list]:
    """Prompts to train on and prompts held out, drawn at random, both in their order; at least one each.

    Rows of the same prompt stay together. ValueError: a share outside (0, 1), fewer than two prompts.
    """
    require_number("share", share, 0.0, 1.0)
    require(0.0 < share < 1.0, "share", share, "a number between 0 and 1")
    names = [name_of(row) for row in rows]
    others = list(dict.fromkeys(names))
    require(len(others) > 1, "prompts", len(others), "at least two different ones, to hold one out")
    count = min(max(1, round(share * len(others))), len(others) - 1)
    order = torch.randperm(len(others), generator=torch.Generator().manual_seed(seed)).tolist()
    chosen = {others[i] for i in order[:count]}
    kept = [row for row, name in zip(rows, names, strict=True) if name not in chosen]
    return kept, [row for row, name in zip(rows, names, strict=True) if name in chosen]


def name_of(row: object) -> str:
    """What tells a prompt from others: its text or messages, without the row's other columns."""
    return repr(row["prompt"] if isinstance(row, dict) else row)


def require_apart(trained: list, held_out: list) -> None:
    """ValueError: prompts that are trained on are among those that measure it."""
    known = {name_of(row) for row in trained}
    both = [name for name in map(name_of, held_out) if name in known]
    wants = "prompts that are not trained on"
    got = (
        f"{len(both)} of {len(held_out)} that are trained on too, as {both[0]:.60}" if both else ""
    )
    require(not both, "eval_prompts", got, wants)


def write_texts(path: Path, texts: list[str], found: dict[str, torch.Tensor]) -> None:
    """JSON Lines of what `evaluate` gave: prompt (of a chat its last message), completion, numbers."""
    rows = [
        {"prompt": last_message(text.prompt), "completion": text.completion}
        | {name: float(values[number]) for name, values in found.items()}
        for number, text in enumerate(texts)
    ]
    write_jsonl(path, rows)


class HeldOut:
    """Prompts that a run is not trained on; measures its policy on them, and keeps the best in `folder`.

    Best is the largest value, score − β·KL: what training maximises, on prompts it has not seen. Each row
    has its `gain` in value since the first, with the standard error. The best of many is partly luck.
    """

    def __init__(
        self, prompts: list, folder: str | Path, every: int | None = None, samples: int = SAMPLES
    ):
        """`every`: iterations between two measurements (None: those between checkpoints)."""
        require(len(prompts) > 0, "prompts", "an empty list", "at least one held-out prompt")
        require_count("samples", samples, low=2)
        if every is not None:
            require_count("every", every)
        self.prompts, self.folder = prompts, Path(folder)
        self.every, self.samples = every, samples
        there = (self.folder / ROWS).exists()
        kept = read_json(self.folder / ROWS, ("rows", "first")) if there else {}
        self.rows: list[dict] = kept.get("rows", [])
        self.first: list[float] = kept.get("first", [])  # values of the responses before training

    def watch(self, state: RLHFState, records: Iterable[dict]) -> Iterator[dict]:
        """Pass a run's records through; measure before the first, at times, and after the last."""
        every = self.every or state.config.checkpoint_every
        self.rows = [row for row in self.rows if row["iteration"] <= state.iteration]
        if not self.rows:
            self.measure(state)
        for record in records:
            if state.iteration % every == 0 or state.iteration == state.config.iterations:
                record = record | self.measure(state)
            yield record

    def measure(self, state: RLHFState) -> dict:
        """Measure the policy now, and keep it if it is the best so far; → the row, for a record."""
        asked = as_prompts(self.prompts, state.models.tokenizer)
        what = (state.models.actor, replace(state, prompts=asked), self.samples)
        found, texts = evaluate(*what, batch_size=state.config.batch_size)
        found["value"] = found["score"] - state.kl_coef * found["kl"]
        means = {name: float(x.mean()) for name, x in found.items()}
        if not self.rows:
            self.first = found["value"].tolist()
        means["gain"], means["gain_error"] = change(torch.tensor(self.first), found["value"])
        better = not self.rows or means["value"] > self.best["value"]
        self.rows.append({"iteration": state.iteration} | means)
        if better:
            actor = state.models.actor  # the adapter alone, where its base can be loaded by name
            alone = has_adapter(actor) and bool(getattr(actor, "name_or_path", ""))
            save_policy(state, self.folder / BEST, None, alone, self.rows[-1])
        if rank() == 0:
            kept = {"prompts": as_rows(asked), "rows": self.rows, "first": self.first}
            write_json(self.folder / ROWS, kept)
            write_texts(self._texts(state.iteration), texts, found)
        return {f"held_out_{name}": x for name, x in means.items()}

    def _texts(self, iteration: int) -> Path:
        return self.folder / TEXTS / f"iteration_{iteration:05d}.jsonl"

    def texts(self, iteration: int) -> list[dict]:
        """The responses measured after this iteration (0: before training), with their numbers."""
        return read_jsonl(self._texts(iteration))

    def opening(self, trained: int) -> str:
        """What is said before training: how many prompts are held out, of how many."""
        count = len(self.prompts)
        said = f"Trained on {trained} prompts; {count} held out, to measure on"
        if count >= FEW:
            return said + "."
        return f"{said}: few, which tell little about others (--eval-prompts FILE names more)."

    @property
    def best(self) -> dict:
        """The row of the best policy so far: iteration, score, KL, value, on the held-out prompts."""
        require(len(self.rows) > 0, "rows", "none yet", "a measurement")
        return max(self.rows, key=lambda row: (row["value"], -row["iteration"]))

    def report(self) -> str:
        """One line about the best policy, and where it is."""
        first, best = self.rows[0], self.best
        noise = from_chance(best["gain"], best["gain_error"], self.samples)
        sure = f"gain {best['gain']:+.3f} ± {best['gain_error']:.3f} standard error"
        sure += f", {FROM_CHANCE}" if noise else ""
        gain = f"value {best['value']:.3f} (before training {first['value']:.3f}, {sure})"
        where = f"iteration {best['iteration']} is best: {gain}"
        if best["iteration"] == first["iteration"]:
            where = f"no policy is better than the one before training, value {best['value']:.3f}"
        count = f"{len(self.prompts)} prompts" if len(self.prompts) > 1 else "one prompt"
        what = "Value is score − β·KL, what training maximises."
        said = f"On {count} not trained on, {where}; kept in {self.folder / BEST}. {what}"
        return f"{said} {below_0(row['kl'] for row in self.rows)}".rstrip()
