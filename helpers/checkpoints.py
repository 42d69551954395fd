"""Checkpoints: save a run and resume it exactly. Safetensors and JSON only."""

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, load_model, save_file
from torch import nn

from helpers.config import DirectConfig, RLHFConfig, config_from_dict
from helpers.models import fingerprint, quiet_loading, vocabulary_fingerprint
from helpers.prompts import as_rows
from helpers.reward_model import RewardModel
from helpers.state import Models, RLHFState, load_models, resolve_rates, start_run
from helpers.tools.files import (
    FileProblem,
    atomic_folder,
    hold_folder,
    read_json,
    require_intact,
    sha256,
    write_json,
)
from helpers.tools.parallel import gather, rank, world_size
from helpers.tools.validate import require

TENSORS, FACTS, ACTOR = "state.safetensors", "state.json", "actor"
NAME = re.compile(r"iteration_(\d+)")
CHANGES = ("iteration", "history", "kl_coef", "score_mean", "score_std", "pairs")  # of a state
OTHER = {
    "reference": "against another reference model",
    "tokenizer": "with another tokenizer",
    "reward": "on another reward model or function",
}
NEEDED = ("config", "prompts", *CHANGES, "threads", "processes", "device", *OTHER, "sha256", "seal")
KEPT = 2  # newest checkpoints that stay
ABANDONED = 3600  # seconds after which what a killed process left half written goes


def save_checkpoint(
    state: RLHFState, folder: str | Path, also: Callable[[Path], None] | None = None
) -> Path:
    """Write `folder/checkpoints/iteration_00020` atomically; then remove older ones.

    Its `actor/` is an ordinary model folder: `load_actor` and transformers read it. `also` may put
    more files into the checkpoint before it counts as written. Over several processes each calls
    this, and the first writes.
    """
    path = Path(folder) / "checkpoints" / f"iteration_{state.iteration:05d}"
    tensors = _tensors(state)
    if rank() > 0:
        return path
    with atomic_folder(path) as temporary, quiet_loading():
        state.models.actor.save_pretrained(temporary / ACTOR)
        state.models.tokenizer.save_pretrained(temporary / ACTOR)
        save_file(tensors, temporary / TENSORS)
        if also is not None:
            also(temporary)
        files = sorted(file for file in temporary.rglob("*") if file.is_file())
        sums = {file.relative_to(temporary).as_posix(): sha256(file) for file in files}
        facts = _facts(state) | {"sha256": sums}
        write_json(temporary / FACTS, facts | {"seal": _seal(facts)})
    _tidy(path.parent, list_checkpoints(folder)[:-KEPT])
    return path


def _tidy(folder: Path, old: list[Path]) -> None:
    """Remove old checkpoints (each gives up its name first), and what a killed process left long ago."""
    for path in old:
        nameless = path.with_name(f".{path.name}.old")
        shutil.rmtree(nameless, ignore_errors=True)
        path.rename(nameless)
    for path in folder.glob(".iteration_*"):
        if path.suffix == ".old" or time.time() - path.stat().st_mtime > ABANDONED:
            shutil.rmtree(path, ignore_errors=True)


def list_checkpoints(folder: str | Path) -> list[Path]:
    """Complete checkpoints in a run's folder, oldest first."""
    found = Path(folder).glob("checkpoints/iteration_*")
    return sorted((path for path in found if NAME.fullmatch(path.name)), key=reached)


def reached(checkpoint: Path) -> int:
    """The iteration of a checkpoint, from its name."""
    return int(NAME.fullmatch(checkpoint.name)[1])


def newest_checkpoint(folder: str | Path) -> Path:
    """The last complete checkpoint in a run's folder. FileProblem: there is none."""
    found = list_checkpoints(folder)
    if not found:
        raise FileProblem(
            f"No checkpoint below {folder}: wants {folder}/checkpoints/iteration_*. A run that was stopped"
            " before its first one (checkpoint_every) begins anew, by the command that started it."
        )
    return found[-1]


def saved_config(folder: str | Path) -> RLHFConfig | DirectConfig:
    """The config of the run in `folder`, from its newest checkpoint."""
    return config_from_dict(_read_facts(newest_checkpoint(folder))["config"])


def require_unused(folder: str | Path, iteration: int = 0) -> None:
    """Require that a folder has no run beyond `iteration`: two runs must not share checkpoints."""
    last = max((reached(path) for path in list_checkpoints(folder)), default=0)
    got = f"{folder}, where a run has reached iteration {last}"
    require(last <= iteration, "save_dir", got, "another folder, or that run resumed")


@contextmanager
def hold_run(folder: str | Path, iteration: int) -> Iterator[None]:
    """A run's folder for this run alone while it trains: `hold_folder` and `require_unused`."""
    with hold_folder(Path(folder)):
        require_unused(folder, iteration)
        yield


def _seal(facts: dict) -> str:
    """sha256 of everything in `state.json` except itself."""
    kept = {name: value for name, value in facts.items() if name != "seal"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _tensors(state: RLHFState) -> dict:
    """Tensors of critic (those trained), optimizer and generators: name → tensor."""
    tensors = {}
    if state.models.critic is not None:
        named = state.models.critic.named_parameters(remove_duplicate=False)
        frozen = {name for name, parameter in named if not parameter.requires_grad}  # under LoRA
        every = state.models.critic.state_dict()
        tensors = {f"critic.{name}": x for name, x in every.items() if name not in frozen}
    for index, moments in state.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in moments.items()}
    for name, generator in state.generators.items():
        first, *others = gather(generator.get_state().unsqueeze(0))
        tensors[f"generator.{name}"] = first
        tensors |= {f"generator.{name}.{k}": other for k, other in enumerate(others, start=1)}
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}


def _surroundings(models: Models) -> dict:
    """What must be equal to resume a run exactly, beside its config and prompts."""
    is_model = isinstance(models.reward, RewardModel)
    return {
        "threads": torch.get_num_threads(),
        "processes": world_size(),
        "device": models.device.type,
        "reference": fingerprint(models.reference),
        "tokenizer": vocabulary_fingerprint(models.tokenizer),
        "reward": fingerprint(models.reward) if is_model else None,
    }


def _facts(state: RLHFState) -> dict:
    """What a checkpoint holds beside tensors."""
    return {
        "config": state.config.as_dict(),
        "prompts": as_rows(state.prompts),
        "measures": sorted(state.measures),
        **{name: getattr(state, name) for name in CHANGES},
        **_surroundings(state.models),
    }


def load_checkpoint(
    folder: str | Path,
    config: RLHFConfig | None = None,
    models: Models | None = None,
    reward=None,
    measures: dict | None = None,
) -> RLHFState:
    """Load the run in `folder` from its newest checkpoint, to continue it exactly.

    Give `models` or `reward` again when the run was started with its own. `config`, if given, must
    be the saved one, except that `iterations` may be more: the run is longer then, and from here on
    its rate is annealed over the whole length. FileProblem: nothing there, cut short, altered, or
    another reference or reward model. ValueError: another config, fewer iterations, another device,
    number of threads or of processes.
    """
    path = newest_checkpoint(folder)
    facts = _read_facts(path)
    for name, digest in facts["sha256"].items():
        require_intact(path / name, digest)
    saved = config_from_dict(facts["config"])
    length = saved.iterations if config is None else _longer(config, saved, models)
    models = models or load_models(saved, reward)
    _require_same(path, facts, models)
    unfitted = replace(saved, normalize_scores=False)  # mean and scale are read, not fitted again
    state = start_run(unfitted, models, prompts=facts["prompts"], measures=measures)
    state.config = replace(saved, iterations=length)
    for name in CHANGES:
        setattr(state, name, facts[name])
    _restore_actor(models.actor, path / ACTOR)
    _restore(state, load_file(path / TENSORS))
    return state


def _restore_actor(actor: nn.Module, folder: Path) -> None:
    """Load the actor's weights from a checkpoint; under LoRA they are only the adapter's."""
    weights = next(folder.glob("*.safetensors"))
    if not weights.name.startswith("adapter"):
        load_model(actor, weights)
        return
    from peft import set_peft_model_state_dict

    set_peft_model_state_dict(actor, load_file(weights))


def _read_facts(path: Path) -> dict:
    facts = read_json(path / FACTS, NEEDED)
    if facts["seal"] != _seal(facts):
        raise FileProblem(f"{path / FACTS} is altered.")
    return facts


def _longer(config: RLHFConfig, saved: RLHFConfig, models: Models | None) -> int:
    """The iterations of this config, which is else the saved one. ValueError: another, or fewer."""
    config = resolve_rates(config, models)
    least = saved.iterations
    length = least if config.iterations is None else config.iterations  # DPO's, by its epochs
    require(length >= least, "iterations", length, f"at least {least}, as saved")
    for name, value in replace(config, iterations=least).as_dict().items():
        wants = getattr(saved, name)
        require(value == wants, name, repr(value), f"{wants!r} as saved")
    return length


def _require_same(path: Path, facts: dict, models: Models) -> None:
    """FileProblem: other models than the saved run's; ValueError: it ran in another way."""
    for name, here in _surroundings(models).items():
        if name in OTHER and here != facts[name]:
            raise FileProblem(f"{path} was trained {OTHER[name]}.")
        require(here == facts[name], name, repr(here), f"{facts[name]!r} as saved")


def _restore(state: RLHFState, tensors: dict) -> None:
    """Restore critic, optimizer moments and generators."""
    groups: dict[str, dict] = {"critic": {}, "optimizer": {}, "generator": {}}
    for name, value in tensors.items():
        kind, rest = name.split(".", 1)
        groups[kind][rest] = value
    critic = state.models.critic
    if critic is not None:
        critic.load_state_dict(critic.state_dict() | groups["critic"])  # frozen ones stay
    moments: dict[int, dict] = {}
    for name, value in groups["optimizer"].items():
        index, field = name.split(".")
        moments.setdefault(int(index), {})[field] = value
    state.optimizer.load_state_dict(state.optimizer.state_dict() | {"state": moments})
    for name, generator in state.generators.items():
        name = f"{name}.{rank()}" if rank() > 0 else name
        generator.set_state(groups["generator"][name])
