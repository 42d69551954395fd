"""Which runs make up a study: names and settings, nothing else. `helpers.sweeps` runs them."""

from helpers.config import RLHFConfig

BETAS = (0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0)
# of the comparison of placements; a KL in the loss is weighed against whitened advantages, so that
# it takes a larger β to end at the same KL
REWARD_BETAS, LOSS_BETAS = (0.05, 0.1, 0.3), (0.3, 1.0, 3.0)
TARGETS = (1.0, 3.0)  # nats per response, of the adaptive β
FIRST_BETAS = (0.02, 0.5)  # where the adaptive β starts: too small, too large
HORIZON = 150.0  # responses: these runs leave no time for the thousands of published ones

Study = dict[str, RLHFConfig]


def beta_name(kl_coef: float, seed: int) -> str:
    """Name, and folder, of one run of the β sweep."""
    return f"beta_{kl_coef:g}_seed_{seed}"


def beta_study(
    betas: tuple = BETAS, seeds: tuple = (0, 1, 2), iterations: int = 100
) -> dict[str, RLHFConfig]:
    """The same training at each β and seed, 128 responses an iteration."""
    size = {"batch_size": 128, "minibatch_size": 128, "learning_rate": 3e-4}
    return {
        beta_name(beta, seed): RLHFConfig(
            kl_coef=beta, seed=seed, iterations=iterations, device="cpu", **size
        )
        for seed in sorted(set(seeds))
        for beta in sorted(set(betas))
    }


def control_study(seeds: tuple = (0,), iterations: int = 60) -> dict[str, RLHFConfig]:
    """Adaptive β for three targets and three beginnings; KL in the reward, and in the loss."""
    runs = {}
    for seed in sorted(set(seeds)):
        shared = {"seed": seed, "iterations": iterations, "device": "cpu"}
        # the KL has to come back from where a wrong β took it: two thirds more
        longer = shared | {"iterations": iterations * 5 // 3}
        for target in TARGETS:
            for first in FIRST_BETAS:
                config = RLHFConfig(kl_coef=first, kl_target=target, kl_horizon=HORIZON, **longer)
                runs[f"target_{target:g}_from_{first:g}_seed_{seed}"] = config
        for beta in REWARD_BETAS:
            runs[f"reward_{beta:g}_seed_{seed}"] = RLHFConfig(kl_coef=beta, **shared)
        for beta in LOSS_BETAS:
            for kind in ("k2", "full"):
                config = RLHFConfig(kl_coef=beta, kl_placement="loss", kl_loss=kind, **shared)
                runs[f"loss_{kind}_{beta:g}_seed_{seed}"] = config
    return runs
