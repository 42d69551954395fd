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
    sha256,
    write_json,
)
from helpers.tools.parallel import gather, rank, world_size
from helpers.tools.validate import require

TENSORS, FACTS, ACTOR = "state.safetensors", "state.json", "actor"
NAME = re.compile(r"iteration_(\d+)")
NEEDED = ("config", "iteration", "history", "kl_coef", "score_mean", "score_std", "prompts")
NEEDED += ("threads", "device", "reference", "reward", "sha256")
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


def checkpoint_due(state: RLHFState) -> bool:
    """Whether to save now: every `checkpoint_every` iterations, and at the end."""
    done, config = state.iteration, state.config
    return done % config.checkpoint_every == 0 or done == config.iterations


def _tidy(folder: Path, old: list[Path]) -> None:
    """Remove old checkpoints, and what a killed process left long ago. Never one that is half gone:
    a checkpoint gives up its name first.
    """
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


def _frozen(model: nn.Module) -> set[str]:
    """Names of the parameters that are not trained: under LoRA all but the adapter's and the head's."""
    named = model.named_parameters(remove_duplicate=False)
    return {name for name, parameter in named if not parameter.requires_grad}


def _tensors(state: RLHFState) -> dict:
    """Tensors of critic (those trained), optimizer and generators: name → tensor."""
    tensors = {}
    if state.models.critic is not None:
        frozen, every = _frozen(state.models.critic), state.models.critic.state_dict()
        tensors = {f"critic.{name}": x for name, x in every.items() if name not in frozen}
    for index, moments in state.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in moments.items()}
    for name, generator in state.generators.items():
        first, *others = gather(generator.get_state().unsqueeze(0))
        tensors[f"generator.{name}"] = first
        tensors |= {f"generator.{name}.{k}": other for k, other in enumerate(others, start=1)}
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}


def _facts(state: RLHFState) -> dict:
    """What must be equal to resume a run exactly, and its history."""
    reward = state.models.reward
    return {
        "config": state.config.as_dict(),
        "iteration": state.iteration,
        "history": state.history,
        "kl_coef": state.kl_coef,
        "score_mean": state.score_mean,
        "score_std": state.score_std,
        "prompts": as_rows(state.prompts),
        "pairs": state.pairs,
        "threads": torch.get_num_threads(),
        "processes": world_size(),
        "device": state.models.device.type,
        "reference": fingerprint(state.models.reference),
        "tokenizer": vocabulary_fingerprint(state.models.tokenizer),
        "reward": fingerprint(reward) if isinstance(reward, RewardModel) else None,
        "measures": sorted(state.measures),
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
    _check_files(path, facts)
    saved = config_from_dict(facts["config"])
    if config is not None:
        config = resolve_rates(config, models)
        if config.iterations is None:  # DPO's, by its epochs
            config = replace(config, iterations=saved.iterations)
    _refuse_changes(facts, saved, config)
    models = models or load_models(saved, reward)
    if models.device.type != facts["device"]:
        raise ValueError(f"device: got {models.device.type!r}, wants {facts['device']!r} as saved.")
    _check_models(path, facts, models)
    unfitted = replace(saved, normalize_scores=False)  # mean and scale are read, not fitted again
    state = start_run(unfitted, models, prompts=facts["prompts"], measures=measures)
    length = saved.iterations if config is None else config.iterations
    state.config = replace(saved, iterations=length)
    state.iteration, state.history = facts["iteration"], facts["history"]
    state.kl_coef, state.pairs = facts["kl_coef"], facts.get("pairs")
    state.score_mean, state.score_std = facts["score_mean"], facts["score_std"]
    _restore_actor(models.actor, _weights(path))
    _restore(state, load_file(path / TENSORS))
    return state


def _weights(path: Path) -> Path:
    """The actor's weights in a checkpoint: `model.safetensors`, or under LoRA only the adapter's."""
    return next((path / ACTOR).glob("*.safetensors"))


def _restore_actor(actor: nn.Module, weights: Path) -> None:
    if not weights.name.startswith("adapter"):
        load_model(actor, weights)
        return
    from peft import set_peft_model_state_dict

    set_peft_model_state_dict(actor, load_file(weights))


def _read_facts(path: Path) -> dict:
    facts = read_json(path / FACTS, NEEDED)
    if "seal" in facts and facts["seal"] != _seal(facts):  # older checkpoints have none
        raise FileProblem(f"{path / FACTS} is altered.")
    return facts


def _check_files(path: Path, facts: dict) -> None:
    for name, wants in facts["sha256"].items():
        if not (path / name).is_file():
            raise FileProblem(f"{path / name} is missing.")
        if sha256(path / name) != wants:
            raise FileProblem(f"{path / name} is cut short or altered.")


def _refuse_changes(facts: dict, saved: RLHFConfig, config: RLHFConfig | None) -> None:
    facts = {"processes": 1} | facts  # older checkpoints do not tell
    for name, here in (("threads", torch.get_num_threads()), ("processes", world_size())):
        if here != facts[name]:
            raise ValueError(f"{name}: got {here}, wants {facts[name]} as saved.")
    given = {} if config is None else config.as_dict()
    if given and given.pop("iterations") < saved.iterations:
        least = f"at least {saved.iterations}, as saved"
        raise ValueError(f"iterations: got {config.iterations}, wants {least}.")
    for name, value in given.items():
        if value != getattr(saved, name):
            raise ValueError(f"{name}: got {value!r}, wants {getattr(saved, name)!r} as saved.")


def _check_models(path: Path, facts: dict, models: Models) -> None:
    if fingerprint(models.reference) != facts["reference"]:
        raise FileProblem(f"{path} was trained against another reference model.")
    spoken = vocabulary_fingerprint(models.tokenizer)
    if facts.get("tokenizer", spoken) != spoken:  # older checkpoints do not tell
        raise FileProblem(f"{path} was trained with another tokenizer.")
    is_model = isinstance(models.reward, RewardModel)
    if (fingerprint(models.reward) if is_model else None) != facts["reward"]:
        raise FileProblem(f"{path} was trained on another reward model or function.")


def _restore(state: RLHFState, tensors: dict) -> None:
    """Restore critic, optimizer moments and generators."""
    groups: dict[str, dict] = {"critic": {}, "optimizer": {}, "generator": {}}
    for name, value in tensors.items():
        kind, rest = name.split(".", 1)
        groups[kind][rest] = value
    critic = state.models.critic
    if critic is not None:
        frozen, every = _frozen(critic), critic.state_dict()
        kept = {name: x for name, x in every.items() if name in frozen}
        critic.load_state_dict(
            kept | groups["critic"]
        )  # older checkpoints have the frozen ones too
    moments: dict[int, dict] = {}
    for name, value in groups["optimizer"].items():
        index, field = name.split(".")
        moments.setdefault(int(index), {})[field] = value
    state_dict = state.optimizer.state_dict() | {"state": moments}
    state.optimizer.load_state_dict(state_dict)
    for name, generator in state.generators.items():
        name = f"{name}.{rank()}" if rank() > 0 else name
        generator.set_state(groups["generator"][name])
