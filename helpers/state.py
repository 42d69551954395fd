"""The state of a run: four models, optimizer, random generators, β, history."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from helpers.config import RLHFConfig
from helpers.data import load_rows
from helpers.models import (
    allow_tf32,
    check_vocabulary,
    fingerprint,
    freeze,
    has_adapter,
    has_review_vocabulary,
    load_actor,
    load_tokenizer,
    make_critic,
    make_reference,
    trainable,
)
from helpers.prompts import as_prompts
from helpers.reward_model import RewardModel, load_reward_model
from helpers.rewards import Reward, score_texts
from helpers.sampling import sample_texts
from helpers.tools.interrupts import interrupts_wait
from helpers.tools.parallel import rank, same_everywhere, world_size
from helpers.tools.validate import require

# learning rates where the config names none; under LoRA few parameters move, each may move further
COURSE_RATE, PRETRAINED_RATE, ADAPTER_RATE = 1e-3, 1e-5, 3e-4


@dataclass
class Models:
    """The four models of RLHF, and the tokenizer of the policy. Only actor and critic are trained."""

    actor: nn.Module  # the policy π: samples, and is trained
    critic: nn.Module | None  # predicts the reward still to come; is trained. Only PPO has one
    reward: Reward | RewardModel  # a frozen model, or any function as `rewards.py` says
    reference: nn.Module  # π_ref: the actor as it was; frozen
    tokenizer: PreTrainedTokenizerBase

    @property
    def device(self) -> torch.device:
        return self.actor.device

    def trained_parameters(self, config: RLHFConfig) -> list[dict]:
        """Parameter groups of the one optimizer: actor first, then critic, if there is one."""
        rates = {"actor": "learning_rate", "critic": "critic_learning_rate"}
        return [
            {"params": trainable(model), "lr": getattr(config, rates[name])}
            for name, model in self.trained().items()
        ]

    def trained(self) -> dict[str, nn.Module]:
        """The models that are trained, by name."""
        both = {"actor": self.actor, "critic": self.critic}
        return {name: model for name, model in both.items() if model is not None}


def load_models(config: RLHFConfig, reward: Reward | None = None) -> Models:
    """Load all models onto one device, a critic for PPO only; `reward`, if given, replaces the model."""
    tokenizer = load_tokenizer(config.actor)
    actor = load_actor(config.actor, config.device)
    check_vocabulary(actor, tokenizer)
    torch.manual_seed(config.seed)  # a reward function of one's own may draw numbers
    if reward is None:
        reward = freeze(load_reward_model(config.reward_model, config.device))
    critic = make_critic(actor) if config.method == "ppo" else None
    return Models(actor, critic, reward, make_reference(actor), tokenizer)


@dataclass
class RLHFState:
    """Everything that changes during a run, and its config."""

    config: RLHFConfig
    models: Models
    prompts: list[str]  # those of rows carry the other columns
    measures: dict[str, Callable]  # other scores of the texts, watched but not trained on
    optimizer: torch.optim.Optimizer
    generators: dict[str, torch.Generator]  # "prompts", "samples", "minibatches"
    kl_coef: float  # β now; moves only with an adaptive controller
    score_mean: float = 0.0  # normaliser of the scores, from reference samples
    score_std: float = 1.0
    iteration: int = 0  # iterations done
    history: list[dict] = field(default_factory=list)  # one record per iteration
    pairs: str | None = None  # sha256 of the data set of pairs, in `helpers.direct`

    def score(self, texts: list[str]) -> Tensor:
        """Normalised proxy scores [B], on the CPU."""
        return self.normalize(score_texts(self.models.reward, texts))

    def normalize(self, raw_scores: Tensor) -> Tensor:
        """Scores as the reward gave them → in standard deviations of the reference: [B] → [B]."""
        return (raw_scores - self.score_mean) / self.score_std

    @property
    def in_half_precision(self) -> bool:
        """Whether the actor computes in less than float32: by its weights, or as the config says."""
        return self.models.actor.dtype != torch.float32 or self.config.mixed_precision != "no"

    @property
    def keeps_raw_scores(self) -> bool:
        """Whether records hold `raw_score` too: where it would not be `score` once more."""
        changes = self.score_mean, self.score_std, self.config.missing_eos_penalty
        return changes != (0.0, 1.0, 0.0)


def resolve_rates(config: RLHFConfig, models: Models | None = None) -> RLHFConfig:
    """The config with a number for each learning rate not given, chosen by the actor.

    The course's own small model learns at 1e-3, which would destroy any other model in one update; at
    the 1e-5 of whole models a LoRA adapter does not move a word in a short run.
    """
    rates = ("learning_rate", "critic_learning_rate")  # DirectConfig has no critic's
    names = [name for name in rates if getattr(config, name, 0.0) is None]
    if not names:
        return config
    tokenizer = load_tokenizer(config.actor) if models is None else models.tokenizer
    adapted = models is not None and has_adapter(models.actor)
    other = ADAPTER_RATE if adapted else PRETRAINED_RATE
    rate = COURSE_RATE if has_review_vocabulary(tokenizer) else other
    return replace(config, **dict.fromkeys(names, rate))


class Adam(torch.optim.Adam):
    """Adam of which no interrupt cuts a step in two: after half a first one it would trip over its state."""

    step = interrupts_wait()(torch.optim.Adam.step)


LARGE_PRIME = 100_003  # apart are the seeds of two processes


def make_generators(seed: int, device: torch.device) -> dict[str, torch.Generator]:
    """One random generator per purpose, so that a change of one does not affect the others.

    With several processes only the samples differ: prompts and shuffles are those of the whole batch.
    """
    devices = {"prompts": "cpu", "samples": device, "minibatches": "cpu"}
    apart = {"samples": LARGE_PRIME * rank()}
    return {
        name: torch.Generator(where).manual_seed(3 * seed + offset + apart.get(name, 0))
        for offset, (name, where) in enumerate(devices.items())
    }


def check_context(models: Models, prompts: list[str], response_length: int) -> None:
    """Require that prompt and response fit into the actor's context."""
    texts = isinstance(prompts, (list, tuple)) and all(isinstance(p, str) for p in prompts)
    wants = "a list of texts or rows, not empty"
    require(texts and len(prompts) > 0, "prompts", repr(prompts)[:60], wants)
    lengths = [len(ids) for ids in models.tokenizer(list(prompts), verbose=False)["input_ids"]]
    require(min(lengths) > 0, "prompts", "one without tokens", "at least one token in each")
    limit = getattr(models.actor.config, "max_position_embeddings", None)
    fits, got = limit is None or max(lengths) + response_length <= limit, f"{max(lengths)} tokens"
    require(fits, "prompts", f"{got} + {response_length} of response", f"at most {limit}")


def in_step(models: Models) -> bool:
    """Whether actor and critic are identical, bit for bit, in all processes."""
    trained = models.trained().values()
    return world_size() == 1 or same_everywhere("".join(map(fingerprint, trained)))


def start_run(
    config: RLHFConfig,
    models: Models | None = None,
    reward: Reward | None = None,
    prompts: list[str | dict] | None = None,
    measures: dict[str, Callable] | None = None,
    progress: Callable[[Iterable], Iterable] = iter,
    ready: Callable[[RLHFState], None] | None = None,
) -> RLHFState:
    """Start a run. Models (by the config) and prompts (the shipped ones) are loaded if not given.

    Prompts are texts, conversations, or rows whose other columns reach the reward (`helpers.prompts`).
    Learning rates not given are resolved (`resolve_rates`); `progress` may wrap the normaliser's batches
    in a bar, and `ready` is called with the state before them. Several processes all call this in the
    same way. ValueError: models that differ between processes, a batch that does not divide, prompts too
    long for the actor's context.
    """
    together = config.responses_per_prompt  # a prompt's responses stay in one process
    wants = f"a multiple of {world_size()} processes × {together} responses per prompt"
    divides = config.batch_size % (world_size() * together) == 0
    require(divides, "batch_size", config.batch_size, wants)
    models = models or load_models(config, reward)
    if config.method != "ppo":
        models = replace(models, critic=None)
    missing = config.method == "ppo" and models.critic is None
    require(not missing, "models.critic", "None", "a critic, for ppo")
    config = resolve_rates(config, models)
    require(in_step(models), "models", "others in another process", "the same in all")
    if prompts is None:
        prompts = [row["prompt"] for row in load_rows("prompts.jsonl", ("prompt",))]
    prompts = as_prompts(prompts, models.tokenizer)
    check_context(models, prompts, config.response_length)
    fused = models.device.type in ("cpu", "cuda")  # where torch has such a kernel
    optimizer = Adam(models.trained_parameters(config), eps=config.adam_eps, fused=fused)
    state = RLHFState(
        config,
        models,
        prompts,
        measures or {},
        optimizer,
        make_generators(config.seed, models.device),
        config.kl_coef,
    )
    # float32 beside 16 bits is no more precise; a run in float32 would lose |ratio − 1| ≤ 1e-4
    allow_tf32(models.device, state.in_half_precision)
    if ready is not None:
        ready(state)
    if needs_normalizer(state):
        fit_normalizer(state, progress)
    return state


def needs_normalizer(state: RLHFState) -> bool:
    """Whether scores are to be normalised, and the reward is no model that does it itself."""
    reward = state.models.reward
    known = isinstance(reward, RewardModel) and reward.is_normalized
    return state.config.normalize_scores and not known


def fit_normalizer(state: RLHFState, progress: Callable[[Iterable], Iterable] = iter) -> None:
    """Mean and standard deviation of the scores of new reference samples; 1 if all scores are equal."""
    models, config = state.models, state.config
    generator = torch.Generator(device=models.device).manual_seed(config.seed)
    count, size = config.normalizer_samples, config.batch_size
    what = (models.reference, models.tokenizer, state.prompts, count, config, generator)
    scores = score_texts(models.reward, sample_texts(*what, size, progress))
    state.score_mean = float(scores.mean())
    # scores that are all equal differ by rounding only, which is no scale
    differ = float(scores.std()) > 1e-6 * float(scores.abs().max())
    state.score_std = float(scores.std()) if differ else 1.0


History = list[dict]  # one record per iteration, as `helpers.steps.iterate` gives it
