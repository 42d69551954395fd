"""Settings of a run: dataclasses with help for every field; wrong values raise ValueError."""

from dataclasses import asdict, dataclass, fields
from math import ceil
from typing import ClassVar, get_args

from helpers.tools.flags import setting
from helpers.tools.validate import (
    require,
    require_choice,
    require_count,
    require_number,
    require_positive,
)

KL, CREDIT, UPDATE = "the KL penalty", "credit (GAE, whitening, groups)", "the update"
MODELS, RUN, SCORES = "models", "the run", "scores"  # headings of `python -m helpers train --help`
LABELS = "preferences"
CHOICES = {
    "kl_placement": ("reward", "loss"),
    "kl_loss": ("k1", "k2", "k3"),
    "method": ("ppo", "rloo", "grpo", "reinforce"),
    "ratio_level": ("token", "sequence"),
    "loss_aggregation": ("token", "response", "fixed"),
    "mixed_precision": ("no", "tf32", "bf16"),  # fp16 would need loss scaling
    "loss": ("dpo", "ipo"),
}
LEAST = {"seed": 0, "normalizer_samples": 2}  # any other whole number is at least 1
FROM_0_TO_1 = ("gamma", "lam")
AT_LEAST_0 = ("kl_coef", "vf_coef", "entropy_coef", "missing_eos_penalty")
AT_LEAST_0 += ("learning_rate", "critic_learning_rate")  # any other number is above 0


def require_setting(name: str, value: object, kind: type) -> None:
    """Require a value of this type, in the range of the setting of this name."""
    if name in CHOICES:
        require_choice(name, value, CHOICES[name])
    elif kind is bool:
        require(isinstance(value, bool), name, repr(value), "True or False")
    elif kind is int:
        require_count(name, value, LEAST.get(name, 1))
    elif kind is str:
        require(isinstance(value, str), name, repr(value), "a string")
    elif name in FROM_0_TO_1:
        require_number(name, value, 0.0, 1.0)
    elif name in AT_LEAST_0:
        require_number(name, value, low=0.0, wants="a finite number of at least 0")
    else:
        require_positive(name, value)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings that every run has: its models, sizes and seed, and the gradient step."""

    kl_coef: float = setting(0.1, "β: KL coefficient, in reward units per nat; IPO's τ", KL)
    minibatch_size: int = setting(64, "responses (in DPO pairs) per gradient step", UPDATE)
    micro_batch_size: int = setting(
        32, "in memory at once (twice as many without gradients); the gradient is the same", UPDATE
    )
    learning_rate: float | None = setting(
        None,
        "of the actor, annealed to 0; if not given, 1e-3 for the course's own model, else 3e-4 under"
        " LoRA and 1e-5 without",
        UPDATE,
    )
    adam_eps: float = setting(1e-5, "ε of Adam, as in the first PPO code; torch's is 1e-8", UPDATE)
    max_grad_norm: float = setting(1.0, "gradient clipping, of actor and critic together", UPDATE)
    mixed_precision: str = setting(
        "no",
        "'bf16': forwards of what is trained run in half precision, by autocast; 'tf32': on a GPU"
        " float32 products round their factors to 11 bits. 'no' keeps first ratios at 1 ± 1e-4",
        UPDATE,
    )
    gradient_checkpointing: bool = setting(
        False, "keep the inputs of blocks only: less memory in the update, a forward more", UPDATE
    )
    response_length: int = setting(24, "most tokens of a response; EOS ends it earlier", RUN)
    temperature: float = setting(1.0, "for sampling and for log-probs", RUN)
    seed: int = setting(0, "of prompts, sampling, minibatches and new heads", RUN)
    iterations: int = setting(60, "rollouts and updates; annealing ends with the last one", RUN)
    batch_size: int = setting(64, "responses per rollout; in DPO pairs per iteration", RUN)
    checkpoint_every: int = setting(10, "iterations between checkpoints, in a given folder", RUN)
    actor: str = setting(
        "data/sft", "folder or hub name of a causal language model; also the reference", MODELS
    )
    reward_model: str = setting(
        "data/reward", "folder or hub name of a reward model, as RewardModel.save wrote it", MODELS
    )
    device: str = setting("auto", "'auto' picks cuda, then mps, then cpu", MODELS)
    missing_eos_penalty: float = setting(0.0, "off the score of a response without EOS", SCORES)
    normalize_scores: bool = setting(
        True, "mean 0, variance 1 on reference samples, for any reward function", SCORES
    )
    normalizer_samples: int = setting(512, "reference samples for the normaliser", SCORES)

    def __post_init__(self):
        for field in fields(self):
            kind, *optional = get_args(field.type) or (field.type,)
            value = getattr(self, field.name)
            if value is not None or not optional:
                require_setting(field.name, value, kind)

    def as_dict(self) -> dict:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class RLHFConfig(RunConfig):
    """Settings of PPO and its kin. Defaults as in published RLHF runs, unless a field says why not."""

    kl_placement: str = setting(
        "reward", "'reward': −β·k1 on each token's reward; 'loss': a KL term in the loss", KL
    )
    kl_loss: str = setting("k2", "with the KL in the loss: its estimate, 'k1', 'k2' or 'k3'", KL)
    kl_ratio: bool = setting(
        False, "KL in the loss: times π/π_old, for an older policy's tokens", KL
    )
    kl_target: float | None = setting(
        None, "nats per response: β adapts to keep this KL; if not given, β is fixed", KL
    )
    kl_horizon: float = setting(2000.0, "responses over which the adaptive β reacts", KL)
    method: str = setting("ppo", "'ppo' has a critic; rloo, grpo and reinforce have none", CREDIT)
    gamma: float = setting(1.0, "γ: no discount, for a short review scored as a whole", CREDIT)
    lam: float = setting(0.95, "λ of GAE: between the TD error (0) and the full return (1)", CREDIT)
    whiten_advantages: bool = setting(
        True, "zero mean, unit variance over the batch's counted tokens (not with grpo)", CREDIT
    )
    whiten_rewards: bool = setting(False, "unit variance only; the mean is kept", CREDIT)
    scale_by_std: bool = setting(True, "grpo: divide by the group's std; false: Dr. GRPO", CREDIT)
    skip_equal_groups: bool = setting(
        False, "rloo, grpo: leave groups of equal scores out of whitening and loss", CREDIT
    )
    responses_per_prompt: int = setting(1, "K: rloo and grpo compare a prompt's K responses", RUN)
    cliprange: float = setting(0.2, "ε: how far the ratio may go until the gain is clipped", UPDATE)
    cliprange_high: float | None = setting(None, "ε above 1; if not given, as below", UPDATE)
    ratio_level: str = setting(
        "token", "'token': a ratio for each token; 'sequence': their geometric mean (GSPO)", UPDATE
    )
    loss_aggregation: str = setting(
        "token",
        "without a critic: mean over the batch's 'token's, over each 'response' first (GRPO), or"
        " sums over the 'fixed' response_length (Dr. GRPO)",
        UPDATE,
    )
    num_ppo_epochs: int = setting(4, "passes over one rollout", UPDATE)
    cliprange_value: float = setting(0.2, "ε of the critic's loss, in reward units", UPDATE)
    vf_coef: float = setting(0.1, "weight of the critic's loss", UPDATE)
    critic_learning_rate: float | None = setting(
        None, "of the critic, annealed to 0; if not given, the same rule", UPDATE
    )
    entropy_coef: float = setting(0.0, "bonus per nat of entropy; the exact optimum has 0", UPDATE)

    def __post_init__(self):
        super().__post_init__()
        # the gradient of k1 without the ratio has mean 0
        lone = self.kl_loss == "k1" and not self.kl_ratio
        wants = "kl_ratio too, or another estimate"
        require(not lone, "kl_loss", "'k1' without the ratio", wants)
        # the critic's loss is a mean over tokens, and shares minibatches with the policy's
        mixed = self.method == "ppo" and self.loss_aggregation != "token"
        require(not mixed, "loss_aggregation", f"{self.loss_aggregation!r} with ppo", "'token'")
        size, group = self.batch_size, self.responses_per_prompt
        wants = f"a multiple of responses_per_prompt {group}"
        require(size % group == 0, "batch_size", size, wants)
        alone = group == 1 and self.method in ("rloo", "grpo")
        require(not alone, "responses_per_prompt", group, f"at least 2 with {self.method}")
        if self.kl_target is not None:
            require_positive("kl_coef", self.kl_coef)  # adapting multiplies β, so 0 would stay 0
            least = 0.2 * self.batch_size  # below this, one batch could make β negative
            got, wants = self.kl_horizon, f"more than 0.2 · batch_size = {least:g}"
            require(self.kl_horizon > least, "kl_horizon", got, wants)

    @property
    def gradient_steps(self) -> int:
        """Gradient steps of one update."""
        return self.num_ppo_epochs * ceil(self.batch_size / self.minibatch_size)


@dataclass(frozen=True, kw_only=True)
class DirectConfig(RunConfig):
    """Settings of direct preference optimisation."""

    method: ClassVar[str] = "direct"
    responses_per_prompt: ClassVar[int] = 1

    loss: str = setting("dpo", "'dpo': log-sigmoid of the margin; 'ipo': a squared error", LABELS)
    online: bool = setting(
        False, "fresh pairs from the policy, labelled by the reward model, not a data set", LABELS
    )
    pairs: str = setting("data/pairs_train.jsonl", "JSON Lines file of pairs", LABELS)
    epochs: int = setting(1, "passes over the data set, if iterations is not given", RUN)
    iterations: int | None = setting(
        None, "batches of pairs, a record each; if not given, by epochs; required online", RUN
    )

    def __post_init__(self):
        super().__post_init__()
        require_positive("kl_coef", self.kl_coef)  # implicit rewards are multiples of β
        counted = self.iterations is not None or not self.online
        require(counted, "iterations", "None with online=True", "a number of batches")


def config_from_dict(values: dict) -> RLHFConfig | DirectConfig:
    """The inverse of `as_dict`: values of a `DirectConfig` name `pairs`. Unknown names are refused."""
    kind = DirectConfig if "pairs" in values else RLHFConfig
    known = {field.name for field in fields(kind)}
    unknown = sorted(set(values) - known)
    require(not unknown, "config", f"unknown fields {unknown}", f"some of {sorted(known)}")
    return kind(**values)
