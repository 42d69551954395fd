"""Settings of a run: dataclasses with help for every field; wrong values raise ValueError."""

from dataclasses import asdict, dataclass, fields
from typing import ClassVar

from helpers.tools.flags import only, setting
from helpers.tools.validate import (
    require,
    require_choice,
    require_count,
    require_flag,
    require_number,
    require_positive,
)

KL, CREDIT, UPDATE = "the KL penalty", "credit (GAE, whitening, groups)", "the update"
MODELS, RUN, SCORES = "models", "the run", "scores"  # headings of `python -m helpers train --help`
CHOICES = {
    "kl_placement": ("reward", "loss"),
    "kl_loss": ("k1", "k2", "k3", "full"),
    "method": ("ppo", "rloo", "grpo", "reinforce"),
    "ratio_level": ("token", "sequence"),
    "loss_aggregation": ("token", "response", "fixed"),
    "mixed_precision": ("no", "tf32", "bf16"),  # fp16 would need loss scaling
}


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """Settings of an update. Defaults as in published RLHF runs, unless a field says why not."""

    kl_coef: float = setting(
        0.1, "β: price of one nat of KL from the reference, in reward units", KL
    )
    kl_placement: str = setting(
        "reward",
        "'reward': −β·k1 on each token's reward; 'loss': a KL term in the loss instead",
        KL,
    )
    kl_loss: str = setting(
        "k2", "with the KL in the loss: 'k1', 'k2', 'k3' on samples, 'full' over the vocabulary", KL
    )
    kl_ratio: bool = setting(
        False, "with the KL in the loss: times π/π_old, for tokens of an older policy", KL
    )
    method: str = setting(
        "ppo", "'ppo' has a critic; 'rloo', 'grpo' and 'reinforce' have none", CREDIT
    )
    gamma: float = setting(
        1.0, "γ: no discount, because a review is short and scored as a whole", CREDIT
    )
    lam: float = setting(0.95, "λ of GAE: between the TD error (0) and the full return (1)", CREDIT)
    cliprange: float = setting(
        0.2, "ε: how far the ratio may move before the gain is clipped", UPDATE
    )
    cliprange_high: float | None = setting(
        None, "ε above 1, for clip-higher; if not given, the same as below", UPDATE
    )
    ratio_level: str = setting(
        "token", "'token': a ratio for each token; 'sequence': their geometric mean (GSPO)", UPDATE
    )
    loss_aggregation: str = setting(
        "token",
        "without a critic: mean over the batch's 'token's, over each 'response' first (GRPO), or"
        " sums over the 'fixed' response_length (Dr. GRPO)",
        UPDATE,
    )
    cliprange_value: float = setting(0.2, "ε of the critic's loss, in reward units", UPDATE)
    vf_coef: float = setting(
        0.1, "weight of the critic's loss (it shares gradient clipping with the actor)", UPDATE
    )
    entropy_coef: float = setting(
        0.0, "bonus per nat of entropy; must be 0 to compare with the exact optimum", UPDATE
    )
    num_ppo_epochs: int = setting(4, "passes over one rollout", UPDATE)
    minibatch_size: int = setting(64, "responses per gradient step", UPDATE)
    micro_batch_size: int = setting(
        32,
        "responses in memory at once (without gradients twice as many); does not change the gradient",
        UPDATE,
    )
    learning_rate: float | None = setting(
        None,
        "of the actor, annealed to 0; if not given, 1e-3 for the course's own model, else 3e-4 under"
        " LoRA and 1e-5 without",
        UPDATE,
    )
    critic_learning_rate: float | None = setting(
        None, "of the critic, annealed to 0; if not given, the same rule", UPDATE
    )
    adam_eps: float = setting(
        1e-5,
        "ε of Adam, as in the original PPO code; torch's 1e-8 makes small steps larger",
        UPDATE,
    )
    max_grad_norm: float = setting(1.0, "gradient clipping: one norm over actor and critic", UPDATE)
    whiten_advantages: bool = setting(
        True, "zero mean, unit variance over the batch's counted tokens (not with grpo)", CREDIT
    )
    scale_by_std: bool = setting(
        True, "grpo: divide by the group's standard deviation; false is Dr. GRPO", CREDIT
    )
    skip_equal_groups: bool = setting(
        False, "rloo, grpo: leave groups of equal rewards out of whitening and loss", CREDIT
    )
    whiten_rewards: bool = setting(False, "unit variance only; the mean is kept", CREDIT)
    response_length: int = setting(
        24, "maximum number of tokens; a response ends earlier at EOS", RUN
    )
    temperature: float = setting(1.0, "for sampling and for log-probs", RUN)
    mixed_precision: str = setting(
        "no",
        "'bf16': forwards of what is trained run in half precision, by autocast; 'tf32': on a GPU"
        " float32 products round their factors to 11 bits. 'no' keeps first ratios at 1 ± 1e-4",
        UPDATE,
    )
    gradient_checkpointing: bool = setting(
        False, "keep the inputs of blocks only: less memory in the update, a forward more", UPDATE
    )

    def __post_init__(self):
        for name in ("kl_coef", "vf_coef", "entropy_coef"):
            require_number(
                name, getattr(self, name), low=0.0, wants="a finite number of at least 0"
            )
        for name in ("gamma", "lam"):
            require_number(name, getattr(self, name), 0.0, 1.0)
        for name in ("cliprange", "cliprange_value", "temperature", "adam_eps", "max_grad_norm"):
            require_positive(name, getattr(self, name))
        for name in ("learning_rate", "critic_learning_rate"):
            if getattr(self, name) is not None:
                require_number(
                    name, getattr(self, name), low=0.0, wants="a finite number of at least 0"
                )
        for name in ("num_ppo_epochs", "minibatch_size", "micro_batch_size", "response_length"):
            require_count(name, getattr(self, name))
        flags = ("whiten_advantages", "whiten_rewards", "scale_by_std", "skip_equal_groups")
        for name in (*flags, "kl_ratio", "gradient_checkpointing"):
            require_flag(name, getattr(self, name))
        for name, choices in CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        if self.cliprange_high is not None:
            require_positive("cliprange_high", self.cliprange_high)
        # the gradient of k1 without the ratio has mean 0
        lone_k1 = self.kl_loss == "k1" and not self.kl_ratio
        require(
            not lone_k1, "kl_loss", "'k1' without the ratio", "kl_ratio too, or another estimate"
        )
        exact = self.kl_loss == "full" and self.kl_ratio
        require(not exact, "kl_ratio", "True with kl_loss 'full'", "an estimate from samples")
        # the critic's loss is a mean over tokens, and shares minibatches with the policy's
        mixed = self.method == "ppo" and self.loss_aggregation != "token"
        require(not mixed, "loss_aggregation", f"{self.loss_aggregation!r} with ppo", "'token'")


@dataclass(frozen=True, kw_only=True)
class RLHFConfig(PPOConfig):
    """Settings of a whole run: models, length, sizes, seed."""

    actor: str = setting(
        "data/sft", "folder or hub name of a causal language model; also the reference", MODELS
    )
    reward_model: str = setting(
        "data/reward",
        "folder or hub name of a trained reward model, as RewardModel.save wrote it",
        MODELS,
    )
    device: str = setting("auto", "'auto' picks cuda, then mps, then cpu", MODELS)
    seed: int = setting(0, "of prompts, sampling, minibatches and new heads", RUN)
    iterations: int = setting(60, "rollouts and updates; annealing ends with the last one", RUN)
    batch_size: int = setting(64, "responses per rollout", RUN)
    responses_per_prompt: int = setting(
        1, "K: rloo and grpo compare the K responses to one prompt", RUN
    )
    kl_target: float | None = setting(
        None, "nats per response: β adapts to keep this KL; if not given, β is fixed", KL
    )
    kl_horizon: float = setting(2000.0, "responses over which the adaptive β reacts", KL)
    missing_eos_penalty: float = setting(
        0.0, "subtracted from the score of a response without EOS", SCORES
    )
    normalize_scores: bool = setting(
        True, "mean 0, variance 1 on reference samples, for any reward function", SCORES
    )
    normalizer_samples: int = setting(512, "reference samples for the normaliser", SCORES)
    checkpoint_every: int = setting(
        10, "iterations between checkpoints, when a folder is given", RUN
    )

    def __post_init__(self):
        super().__post_init__()
        for name in ("iterations", "batch_size", "responses_per_prompt", "checkpoint_every"):
            require_count(name, getattr(self, name))
        size, group = self.batch_size, self.responses_per_prompt
        require(
            size % group == 0, "batch_size", size, f"a multiple of responses_per_prompt {group}"
        )
        alone = group == 1 and self.method in ("rloo", "grpo")
        require(not alone, "responses_per_prompt", group, f"at least 2 with {self.method}")
        require_count("normalizer_samples", self.normalizer_samples, low=2)
        require_flag("normalize_scores", self.normalize_scores)
        for name in ("actor", "reward_model", "device"):
            value = getattr(self, name)
            require(isinstance(value, str), name, repr(value), "a string")
        require_count("seed", self.seed, low=0)
        require_positive("kl_horizon", self.kl_horizon)
        require_number("missing_eos_penalty", self.missing_eos_penalty, low=0.0)
        if self.kl_target is not None:
            require_positive("kl_target", self.kl_target)
            require_positive("kl_coef", self.kl_coef)  # adapting multiplies β, so 0 would stay 0
            least = 0.2 * self.batch_size  # below this, one batch could make β negative
            got, wants = self.kl_horizon, f"more than 0.2 · batch_size = {least:g}"
            require(self.kl_horizon > least, "kl_horizon", got, wants)

    def as_dict(self) -> dict:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> "RLHFConfig":
        """The inverse of `as_dict`; unknown names are refused."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ValueError(
                f"config: got unknown fields {unknown}, wants some of {sorted(known)}."
            )
        return cls(**values)


LABELS = "preferences"  # a heading


def as_in_rlhf(name: str, **other: object) -> object:
    """The setting of this name of `RLHFConfig`, here with another default or help."""
    known = next(field for field in fields(RLHFConfig) if field.name == name)
    return setting(**{"default": known.default} | dict(known.metadata) | other)


@dataclass(frozen=True, kw_only=True)
class DirectConfig:
    """Settings of direct preference optimisation; what it shares with RLHF has the same names."""

    method: ClassVar[str] = "direct"
    responses_per_prompt: ClassVar[int] = 1

    kl_coef: float = as_in_rlhf(
        "kl_coef", help="β: price of one nat of KL; in IPO it is called τ", group=LABELS
    )
    loss: str = setting("dpo", "'dpo': log-sigmoid of the margin; 'ipo': a squared error", LABELS)
    online: bool = setting(
        False, "fresh pairs from the policy, labelled by the reward model, not a data set", LABELS
    )
    draw_labels: bool = setting(
        False, "online: one choice drawn per pair; else the loss uses its probability", LABELS
    )
    pairs: str = setting("data/pairs_train.jsonl", "file or hub data set of pairs", LABELS)
    epochs: int = setting(1, "passes over the data set, if iterations is not given", RUN)
    iterations: int | None = as_in_rlhf(
        "iterations",
        default=None,
        help="batches of pairs, a record each; if not given, by epochs; required online",
    )
    batch_size: int = as_in_rlhf("batch_size", help="pairs per iteration")
    minibatch_size: int = as_in_rlhf("minibatch_size", help="pairs per gradient step")
    micro_batch_size: int = as_in_rlhf(
        "micro_batch_size", help="pairs in memory at once; does not change the gradient"
    )
    learning_rate: float | None = as_in_rlhf("learning_rate")
    adam_eps: float = as_in_rlhf("adam_eps")
    max_grad_norm: float = as_in_rlhf("max_grad_norm", help="gradient clipping")
    temperature: float = as_in_rlhf("temperature")
    mixed_precision: str = as_in_rlhf("mixed_precision")
    gradient_checkpointing: bool = as_in_rlhf("gradient_checkpointing")
    actor: str = as_in_rlhf("actor")
    reward_model: str = as_in_rlhf(
        "reward_model", help="labels the pairs online; with a data set it is only watched"
    )
    device: str = as_in_rlhf("device")
    seed: int = as_in_rlhf("seed", help="of prompts, sampling, and the order of the pairs")
    response_length: int = as_in_rlhf("response_length")
    missing_eos_penalty: float = as_in_rlhf("missing_eos_penalty")
    normalize_scores: bool = as_in_rlhf("normalize_scores")
    normalizer_samples: int = as_in_rlhf("normalizer_samples")
    checkpoint_every: int = as_in_rlhf("checkpoint_every")

    def __post_init__(self):
        unset = {} if self.iterations is not None else {"iterations": 1}
        only(RLHFConfig, asdict(self) | unset)  # the same checks
        require_positive("kl_coef", self.kl_coef)  # implicit rewards are multiples of β
        require_choice("loss", self.loss, ("dpo", "ipo"))
        require_flag("online", self.online)
        require_flag("draw_labels", self.draw_labels)
        require(isinstance(self.pairs, str), "pairs", repr(self.pairs), "a string")
        require_count("epochs", self.epochs)
        counted = self.iterations is not None or not self.online
        require(counted, "iterations", "None with online=True", "a number of batches")

    as_dict = RLHFConfig.as_dict
    from_dict = classmethod(RLHFConfig.from_dict.__func__)


def config_from_dict(values: dict) -> RLHFConfig | DirectConfig:
    """The config that `as_dict` gave these values: that of `DirectConfig` names `pairs`."""
    return (DirectConfig if "pairs" in values else RLHFConfig).from_dict(values)
