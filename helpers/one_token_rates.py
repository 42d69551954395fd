"""How learning rates and entropy bonus move along a one-token run (`helpers.one_token`). No more."""

from dataclasses import replace

from helpers.config import RLHFConfig

CRITIC_FIRST = 6  # the first iterations, in which only the critic learns
SMALL = 0.2  # what follows is for β below this
BONUS, BONUS_END = 0.13, 0.42  # an entropy bonus, down to 0 when this share of the run is done
LATE, FASTER = 0.4, 1.6  # from this share on the actor's rate is so many times higher
HELD = 0.85  # share of the run in which the rates are held


def entropy_bonus(share: float) -> float:
    """The entropy bonus when this share of a run at small β is done: from `BONUS` down to 0.

    At β = 0.1 the best answer may be one that the reference gives once in a million times, and PPO
    can only reward what it has drawn. A bonus c turns π_ref into π_ref^(β/(β + c)): rare answers
    are tried. Then it is 0, and the optimum is the one without it. At larger β rare answers
    are not worth their price, and the bonus only disturbs.
    """
    return BONUS * max(0.0, 1.0 - share / BONUS_END)


def settings_at(config: RLHFConfig, iteration: int, critic_first: int) -> RLHFConfig:
    """The settings of one iteration of a run with these settings.

    First the critic learns alone (4 epochs, the actor's rate 0): to a critic that expects too much
    every answer looks bad, and the right one, drawn most, is driven out. From then on the rates are
    annealed by the loop, as ever, except at small β, where π* is far away: there they are held for
    most of the run. At π* every advantage is 0 and its noise with it, so a large step does little
    harm near the end, and a small one leaves the way unfinished. (At β = 1, near the reference
    from the beginning, held rates would cost a tenth of J*.)
    """
    if iteration < critic_first:
        return replace(config, learning_rate=0.0, num_ppo_epochs=4)
    if config.kl_coef >= SMALL:
        return config
    left = 1.0 - iteration / config.iterations  # the loop multiplies its rates by this
    share = (iteration - critic_first) / config.iterations
    held = min(1.0, left / (1.0 - HELD)) / left
    return replace(
        config,
        learning_rate=config.learning_rate * held * (FASTER if share > LATE else 1.0),
        critic_learning_rate=config.critic_learning_rate * held,
        entropy_coef=entropy_bonus(share),
    )
