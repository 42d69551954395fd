"""What a run of one's own is made of: reward functions, prompts, LoRA; as flags of `train`.

They are kept beside the checkpoints (`inputs.json`), so that `--resume` needs none of them again.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch

from helpers.checkpoints import load_checkpoint
from helpers.config import RLHFConfig
from helpers.models import resolve_device, stop_at_sentence_ends
from helpers.prompts import read_prompts
from helpers.rewards import Reward, RewardSum, require_columns, takes_completions
from helpers.scale.held_out import (
    LEAST,
    ROWS,
    SAMPLES,
    SHARE,
    HeldOut,
    require_apart,
    split_prompts,
)
from helpers.scale.pretrained import frozen_dtype, make_models
from helpers.state import Models, RLHFState, load_models, start_run
from helpers.tools.files import read_json, write_json
from helpers.tools.flags import setting
from helpers.tools.validate import require, require_count, require_number

INPUTS, OWN = "inputs.json", "your own reward, prompts, LoRA"
STOPPED = "Stopped at once; the last checkpoint stays."
FREE = ("evaluation_samples", "export")  # kept too, and may be others in what goes on
# a larger model takes minutes for what the course's has in seconds
COURSE_SAMPLES, OTHER_SAMPLES = 2000, 200


@dataclass(kw_only=True)
class OwnModel:
    """Flags that change the models of a config: LoRA, and what ends a response."""

    lora: int | None = setting(None, "train a LoRA adapter of this rank (needs peft)", OWN)
    lora_last: int | None = setting(None, "adapt only so many of the last blocks", OWN)
    lora_bf16: bool = setting(
        False,
        "with --lora: frozen weights in bfloat16, half the memory (slow on a CPU without AVX-512)",
        OWN,
    )
    sentence_stops: bool = setting(False, "the end of a sentence ends a response too", OWN)

    def __post_init__(self):
        for name in ("lora", "lora_last"):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name))
        alone = self.lora_last is not None and self.lora is None
        require(not alone, "lora_last", self.lora_last, "--lora too")
        halved = self.lora_bf16 and self.lora is None
        require(not halved, "lora_bf16", "True", "--lora too: what is trained stays float32")

    def own_models(self, config: RLHFConfig, reward: Reward | None) -> Models | None:
        """The models that these flags change; None where the config alone says which they are."""
        if self.lora is None and not self.sentence_stops:
            return None
        if self.lora is None:
            models = load_models(config, reward)
        else:
            frozen = frozen_dtype(resolve_device(config.device))
            what = (config.actor, config.actor, reward or config.reward_model)
            more = {"frozen": frozen, "device": config.device, "seed": config.seed}
            models = make_models(*what, **self.trained(), **more)
        if self.sentence_stops:
            for policy in (models.actor, models.reference):
                stop_at_sentence_ends(policy, models.tokenizer)
        return models

    def trained(self) -> dict:
        """What of the actor is trained, as `make_models` and `estimate_memory` take it."""
        if self.lora is None:
            return {"method": "full"}
        base = torch.bfloat16 if self.lora_bf16 else torch.float32
        return {"method": "lora", "rank": self.lora, "last": self.lora_last, "base": base}


@dataclass(kw_only=True)
class Inputs(OwnModel):
    """Flags of `train` for what a config does not hold."""

    reward: list[str] = setting(
        [], "reward functions, each FILE.py:NAME or MODULE:NAME; several are added up", OWN
    )
    reward_weights: list[float] = setting([], "a weight for each of them; if not given, 1", OWN)
    prompts: Path | None = setting(
        None, "JSON Lines with a text or messages under 'prompt'; other keys reach the reward", OWN
    )
    eval_prompts: Path | None = setting(
        None, "the same, not trained on: measured before, along the run and after", OWN
    )
    eval_share: float = setting(
        SHARE,
        f"without them, share of at least {LEAST} own prompts that is held out; 0 for none",
        OWN,
    )
    eval_every: int | None = setting(
        None, "iterations between two measurements on them; if not given, those of checkpoints", OWN
    )
    evaluation_samples: int | None = setting(
        None,
        f"fresh responses measured before and after; if not given, {COURSE_SAMPLES} of the course's"
        f" policy, {OTHER_SAMPLES} of another; on held-out prompts along the run at most {SAMPLES} of them",
    )

    def __post_init__(self):
        super().__post_init__()
        fits = len(self.reward_weights) in (0, len(self.reward))
        got, wants = f"{len(self.reward_weights)} of them", f"{len(self.reward)}, one a reward"
        require(fits, "reward_weights", got, wants)
        require_number("eval_share", self.eval_share, 0.0, 0.9)
        for name, least in {"eval_every": 1, "evaluation_samples": 2}.items():
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name), least)

    def as_dict(self) -> dict:
        """As plain values; paths in full, since a run may be resumed from another folder."""
        names = {"export", *(field.name for field in fields(Inputs))}
        found = {name: value for name, value in vars(self).items() if name in names}
        paths = {n: str(p.absolute()) for n, p in found.items() if isinstance(p, Path)}
        return found | paths | {"reward": [absolute_name(name) for name in self.reward]}

    def own_reward(self) -> tuple[Reward | None, dict]:
        """The reward that the flags ask for, None if they name none; and its parts, to be measured."""
        functions = [load_function(name) for name in self.reward]
        if len(functions) > 1 or self.reward_weights:
            together = RewardSum(functions, self.reward_weights or None)
            return together, together.measures()
        return (functions[0] if functions else None), {}

    def begin(self, config: RLHFConfig, **more) -> RLHFState:
        """A run at its beginning; `more` as in `start_run`."""
        (reward, measures), (prompts, _) = self.own_reward(), self.split(config.seed)
        rows = [row for row in prompts or [] if isinstance(row, dict)]
        columns = set(rows[0]) - {"prompt"} if rows else set()
        if any(not isinstance(row["prompt"], str) for row in rows):
            columns.add("messages")
        for one in getattr(reward, "rewards", [reward]):  # before any model is loaded
            if takes_completions(one):
                require_columns(one, list(columns))
        models = self.own_models(config, reward)
        return start_run(config, models, reward, prompts, measures, **more)

    def go_on(self, folder: Path, config: RLHFConfig) -> RLHFState:
        """The run in a folder where it stopped, with the inputs it was started with."""
        reward, measures = self.own_reward()
        models = self.own_models(config, reward)
        return load_checkpoint(folder, config, models, reward, measures)

    def split(self, seed: int) -> tuple[list | None, list]:
        """Prompts to train on (None: the course's), and prompts held out (none of the course's)."""
        own = None if self.prompts is None else read_prompts(self.prompts)
        if self.eval_prompts is not None:
            held_out = read_prompts(self.eval_prompts)
            require_apart(own or [], held_out)
            return own, held_out
        if own is None or len(own) < LEAST or self.eval_share == 0.0:
            return own, []
        return split_prompts(own, self.eval_share, seed)

    def held_out(self, folder: Path, seed: int) -> HeldOut | None:
        """The held-out prompts of the run in `folder`, as it was started; None where there are none.

        Measured on as many responses as before training, so that rows can be compared.
        """
        there = folder / ROWS
        kept = read_json(there, ("prompts",)) if there.exists() else {}
        prompts = kept["prompts"] if kept else self.split(seed)[1]
        samples = len(kept.get("first", ())) or min(SAMPLES, self.evaluation_samples or SAMPLES)
        return HeldOut(prompts, folder, self.eval_every, samples) if prompts else None


def say_held_out(state: RLHFState, held_out: HeldOut | None, own: bool) -> None:
    """Say before training what is held out; nothing of the course's own prompts."""
    if held_out is not None:
        print(held_out.opening(len(state.prompts)), flush=True)
    elif own:
        few = "; --eval-prompts FILE names others" if len(state.prompts) < LEAST else ""
        print(
            f"No prompt is held out: measured on the {len(state.prompts)} trained on{few}.",
            flush=True,
        )


def absolute_name(name: str) -> str:
    """FILE.py:NAME with the file's full path; MODULE:NAME as it is."""
    place, _, function = name.rpartition(":")
    return f"{Path(place).absolute()}:{function}" if place.endswith(".py") else name


def load_function(name: str) -> Callable:
    """The function called FILE.py:NAME or MODULE:NAME. ValueError: there is none, or it fails to load."""
    place, _, function = name.rpartition(":")
    require(bool(place and function), "--reward", repr(name), "FILE.py:NAME or MODULE:NAME")
    try:
        from_file = place.endswith(".py")
        module = _load_file(Path(place)) if from_file else importlib.import_module(place)
    except Exception as problem:  # noqa: BLE001 (it is the user's own code)
        said = " ".join(f"{type(problem).__name__}: {problem}".split())[:160]
        raise ValueError(f"--reward: could not load {place} ({said}).") from None
    found = getattr(module, function, None)
    require(callable(found), "--reward", f"{name!r}", f"a function {function!r} in {place}")
    return found


def _load_file(path: Path):
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # what it defines can be pickled
    spec.loader.exec_module(module)
    return module


def keep_inputs(inputs: Inputs, folder: Path) -> None:
    """Write the inputs beside the checkpoints of a run that begins, if there are any."""
    given = inputs.as_dict()
    # one that was stopped before its first checkpoint may have left others
    if given != type(inputs)().as_dict() or (folder / INPUTS).exists():
        write_json(folder / INPUTS, given)


def kept_inputs(inputs: Inputs, folder: Path) -> Inputs:
    """These inputs with those of the run in `folder`. ValueError: a flag given now says something else.

    Only what is free to change is taken as it is given now, where it is.
    """
    if not (folder / INPUTS).exists():
        return inputs
    given, nothing = inputs.as_dict(), type(inputs)().as_dict()
    saved = nothing | read_json(folder / INPUTS, ("reward", "prompts"))  # of another command: fewer
    taken = {}
    for name, value in given.items():
        flag, wants = f"--{name.replace('_', '-')}", f"{saved[name]!r}, as the run was started"
        require(value in (nothing[name], saved[name]) or name in FREE, flag, repr(value), wants)
        if name not in FREE or value is None:
            path = name in ("prompts", "eval_prompts", "export") and saved[name] is not None
            taken[name] = Path(saved[name]) if path else saved[name]
    return replace(inputs, **taken)
