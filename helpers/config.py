"""Settings of a run: frozen dataclasses, one comment per field, refused at once when a value is bad."""

from dataclasses import asdict, dataclass, fields

from helpers.validate import (
    require,
    require_choice,
    require_count,
    require_flag,
    require_number,
    require_positive,
)


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """What one PPO update needs. Defaults as in published RLHF runs unless the comment says why not."""

    kl_coef: float = 0.1  # β: the price of one nat of KL from the reference, in reward units
    kl_placement: str = "reward"  # "reward": −β·k1 per token; "loss": a KL term in the loss instead
    kl_loss: str = "k2"  # with kl_placement="loss": "k2" on the samples, "full" over the vocabulary
    gamma: float = 1.0  # γ: no discount, since a review is short and judged as a whole
    lam: float = 0.95  # λ of GAE: between the TD error (0) and the full return (1)
    cliprange: float = 0.2  # ε: how far the ratio may move before the gain is clipped
    cliprange_value: float = 0.2  # the same for the critic, in reward units
    vf_coef: float = (
        0.1  # weight of the critic's loss (shares the gradient clipping with the actor)
    )
    entropy_coef: float = (
        0.0  # bonus per nat of entropy; 0 wherever the exact optimum is the yardstick
    )
    num_ppo_epochs: int = 4  # passes over one rollout
    minibatch_size: int = 64  # responses per gradient step
    micro_batch_size: int = 32  # of these in memory at once; the gradient is the same for any
    learning_rate: float = 1e-3  # of the actor, annealed to 0; pretrained models want about 1e-5
    critic_learning_rate: float = 1e-3  # of the critic, annealed alike
    adam_eps: float = 1e-5  # as in the original PPO code; torch's own 1e-8 lengthens small steps
    max_grad_norm: float = 1.0  # one norm over actor and critic alike
    whiten_advantages: bool = True  # zero mean, unit variance over the batch's counted tokens
    whiten_rewards: bool = False  # unit variance only; the mean is kept
    temperature: float = 1.0  # for sampling and for log-probs alike

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
            require_number(
                name, getattr(self, name), low=0.0, wants="a finite number of at least 0"
            )
        for name in ("num_ppo_epochs", "minibatch_size", "micro_batch_size"):
            require_count(name, getattr(self, name))
        for name in ("whiten_advantages", "whiten_rewards"):
            require_flag(name, getattr(self, name))
        require_choice("kl_placement", self.kl_placement, ("reward", "loss"))
        require_choice("kl_loss", self.kl_loss, ("k2", "full"))


@dataclass(frozen=True, kw_only=True)
class RLHFConfig(PPOConfig):
    """A whole run: which models, how long, how large, which seed."""

    actor: str = "data/sft"  # folder or hub name of a causal language model; also the reference
    reward_model: str = "data/reward"  # folder or hub name of an encoder with a scalar head
    device: str = "auto"  # "auto" picks cuda, then mps, then cpu
    seed: int = 0  # of prompts, sampling, minibatches and fresh heads
    iterations: int = 60  # rollout + update, this many times; also the horizon of the annealing
    batch_size: int = 64  # responses per rollout
    response_length: int = 24  # tokens at most; a response ends earlier at EOS
    kl_target: float | None = None  # nats per response: adaptive β when given, fixed β when None
    kl_horizon: float = 2000.0  # responses over which the adaptive β reacts
    missing_eos_penalty: float = 0.0  # taken off the score of a response that never stopped
    normalize_scores: bool = (
        True  # mean 0, variance 1 on reference samples, for any reward function
    )
    checkpoint_every: int = 10  # iterations between checkpoints, when a folder is given

    def __post_init__(self):
        super().__post_init__()
        for name in ("iterations", "batch_size", "response_length", "checkpoint_every"):
            require_count(name, getattr(self, name))
        require_flag("normalize_scores", self.normalize_scores)
        for name in ("actor", "reward_model", "device"):
            value = getattr(self, name)
            require(isinstance(value, str), name, repr(value), "a string")
        require_count("seed", self.seed, low=0)
        require_positive("kl_horizon", self.kl_horizon)
        require_number("missing_eos_penalty", self.missing_eos_penalty, low=0.0)
        if self.kl_target is not None:
            require_positive("kl_target", self.kl_target)
            require_positive("kl_coef", self.kl_coef)  # a β of 0 stays 0, whatever moves it
            least = 0.2 * self.batch_size  # or one batch could take β below 0
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
