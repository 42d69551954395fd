"""Export a trained policy: an ordinary model folder, which transformers loads without this course."""

import copy
from pathlib import Path

import torch
from torch import nn
from transformers import AutoConfig, GenerationConfig, PreTrainedTokenizerBase

from helpers.models import (
    check_vocabulary,
    has_adapter,
    load_pretrained,
    quiet_loading,
    stop_tokens,
)
from helpers.rewards import Reward, RewardSum
from helpers.state import RLHFState
from helpers.tools.files import FileProblem, atomic_folder, read_json, write_json
from helpers.tools.parallel import rank
from helpers.tools.validate import require

FACTS, CARD, ADAPTER_SETTINGS = "how_trained.json", "README.md", "adapter_config.json"
NOTE = f"""How it was trained is in `{FACTS}`: `kl` is from the base model, in nats per response, `score`
as trained on, `raw_score` as the reward gives it, `held_out` on prompts not trained on, value =
score − β · KL. `generation_config.json` samples as training did."""
OF_THIS = "generation_config=GenerationConfig.from_pretrained(THIS_FOLDER)"
ADAPTER_NOTE = f"peft reads the base model's, so give it: `model.generate(**inputs, {OF_THIS})`."


def save_policy(
    policy: RLHFState | nn.Module,
    folder: str | Path,
    tokenizer: PreTrainedTokenizerBase | None = None,
    adapter_only: bool = False,
    held_out: dict | None = None,
    dtype: torch.dtype | None = None,
) -> Path:
    """Save the actor of a run, or a model with its tokenizer, as an ordinary folder; → the folder.

    It holds weights (LoRA merged into them; with `adapter_only` the adapter alone, and the name of its
    base model), tokenizer, generation config, a model card, and `how_trained.json`; `held_out` is a row
    of `HeldOut`, for the last two. Weights are in float32, as they were trained, or rounded to `dtype`
    (`own_dtype` is the base model's). An earlier export is replaced atomically. Over several processes
    each calls this, and the first writes. ValueError: no tokenizer, no adapter, a base model without a
    name; FileProblem: a folder that holds anything else; OSError: a full or read-only disk.
    """
    folder = Path(folder).expanduser()
    require_exportable(folder)
    state = policy if isinstance(policy, RLHFState) else None
    model = policy if state is None else state.models.actor
    wants = "a run's state, or a language model of transformers"
    can_save = isinstance(model, nn.Module) and hasattr(model, "save_pretrained")
    require(can_save, "policy", type(policy).__name__, wants)
    tokenizer = state.models.tokenizer if state is not None and tokenizer is None else tokenizer
    require(tokenizer is not None, "tokenizer", "None with a model", "the model's tokenizer")
    check_vocabulary(model, tokenizer)
    facts = _facts(state, _base_name(model)) | ({} if held_out is None else {"held_out": held_out})
    if adapter_only:
        require(has_adapter(model), "adapter_only", "True without LoRA", "a model with LoRA")
        named = facts["base"] != ""
        require(named, "adapter_only", "a base model without a name", "a folder or hub name")
    if rank() == 0:
        with atomic_folder(folder) as temporary, quiet_loading():
            whole = model if adapter_only else merge_adapter(model)
            if dtype not in (None, whole.dtype):
                whole = copy.deepcopy(whole).to(dtype)
            whole.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)
            if adapter_only:
                about = {"task_type": "CAUSAL_LM", "base_model_name_or_path": facts["base"]}
                settings = read_json(temporary / ADAPTER_SETTINGS)
                write_json(temporary / ADAPTER_SETTINGS, settings | about)
            # beside an adapter too, where peft does not look
            _generation(model, tokenizer, state).save_pretrained(temporary)
            (temporary / CARD).write_text(_card(facts, adapter_only), encoding="utf-8")
            files = sorted({path.name for path in temporary.iterdir()} | {FACTS})
            write_json(temporary / FACTS, facts | {"files": files})
    return folder


def require_exportable(folder: Path) -> None:
    """FileProblem if a folder has a file that an earlier export did not write."""
    found = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    if folder.exists() and not folder.is_dir():
        raise FileProblem(f"{folder} is a file: wants a new or empty folder.")
    known = read_json(folder / FACTS, ("files",))["files"] if FACTS in found else []
    foreign = sorted(set(found) - set(known))
    if foreign:
        wants = "a new or empty folder, or an earlier export with nothing added"
        raise FileProblem(f"{folder} holds {foreign[0]!r}, which no export wrote: wants {wants}.")


def _base_name(model: nn.Module) -> str:
    """Folder (absolute) or hub name that a model was loaded from; "" where transformers cannot say."""
    name = getattr(model, "name_or_path", "") or ""
    return str(Path(name).resolve()) if Path(name).is_dir() and name else name


def own_dtype(model: nn.Module) -> torch.dtype:
    """The type of weights in the folder or on the hub, where a model was loaded from; else float32."""
    base = _base_name(model)
    known = load_pretrained(AutoConfig, base).dtype if base else None
    return known or torch.float32


def merge_adapter(model: nn.Module) -> nn.Module:
    """The model with its LoRA matrices added into the weights, as a copy; without LoRA, itself."""
    if not has_adapter(model):
        return model
    from peft.tuners.tuners_utils import BaseTunerLayer

    merged = copy.deepcopy(model).float()  # in bfloat16 a small change would be rounded away
    merged.tie_weights()  # `convert_base` parts the head from the embedding
    layers = [(n, m) for n, m in merged.named_modules() if isinstance(m, BaseTunerLayer)]
    for name, layer in layers:
        layer.merge(safe_merge=True)  # refuses NaN
        parent, _, last = name.rpartition(".")
        setattr(merged.get_submodule(parent), last, layer.get_base_layer())
    merged._hf_peft_config_loaded = False  # an ordinary model again, for save_pretrained
    if hasattr(merged, "peft_config"):
        del merged.peft_config
    return merged


def _generation(
    model: nn.Module, tokenizer: PreTrainedTokenizerBase, state: RLHFState | None
) -> GenerationConfig:
    """How to sample: of a run, as it sampled. (transformers' own top_k is 50.)"""
    generation = copy.deepcopy(model.generation_config)
    stops = stop_tokens(model, tokenizer)
    one = stops[0] if len(stops) == 1 else stops
    generation.update(eos_token_id=one, pad_token_id=tokenizer.pad_token_id)
    if state is not None:
        generation.update(do_sample=True, top_k=0, top_p=1.0, temperature=state.config.temperature)
        generation.update(max_new_tokens=state.config.response_length)
    return generation


def _facts(state: RLHFState | None, base: str) -> dict:
    """How a policy was trained, for `how_trained.json`; nothing is known of a model alone."""
    if state is None:
        return {"base": base}
    actor = state.models.actor
    return {
        "base": base,
        "reward": _reward_name(state.models.reward),
        "lora_rank": next(iter(actor.peft_config.values())).r if has_adapter(actor) else None,
        "method": state.config.method,
        "iterations": state.iteration,
        "kl_coef_now": state.kl_coef,
        "config": state.config.as_dict(),
        "last": state.history[-1] if state.history else {},
        "torch": torch.__version__,
    }


def _reward_name(reward: Reward | nn.Module) -> str:
    """A function's name, a reward model with its encoder's; of a sum all parts with their weights."""
    if isinstance(reward, RewardSum):
        parts = zip(reward.weights, reward.rewards, strict=True)
        return " + ".join(f"{weight:g} · {_reward_name(part)}" for weight, part in parts)
    name = getattr(reward, "__name__", type(reward).__name__)
    if isinstance(reward, nn.Module):
        return f"a reward model ({_base_name(getattr(reward, 'encoder', reward)) or name})"
    return name


def _card(facts: dict, adapter_only: bool) -> str:
    """The model card, in the hub's Markdown: what the hub asks for; all else is in `FACTS`."""
    lines = ["---", f"library_name: {'peft' if adapter_only else 'transformers'}"]
    lines += ["pipeline_tag: text-generation", "tags: [rlhf]"]
    base = facts["base"]
    lines += [f"base_model: {base}"] if base and not Path(base).is_dir() else []  # of the hub only
    known = NOTE if "config" in facts else "How it was trained is not recorded."
    lines += ["---", "", "# A policy trained with RLHF", "", known]
    return "\n".join([*lines, ADAPTER_NOTE if adapter_only else "", ""])
