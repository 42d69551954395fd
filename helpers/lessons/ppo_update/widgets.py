"""Sliders of notebook 04: the clip on a real rollout, and the critic's clip."""

from torch import Tensor

from helpers.kit.sliders import Explorer, picker, slider
from helpers.lessons.ppo_update.figures import surrogate_figure, value_clip_figure


def clip_explorer(ratios: list[Tensor], advantages: Tensor, mask: Tensor) -> Explorer:
    """ε and the epoch: the surrogate, and the ratios [B, T] recorded after each epoch under it."""

    def draw(cliprange: float, epoch: int):
        return surrogate_figure(cliprange, ratios[epoch], advantages, mask)

    names = [(f"after {k} epochs" if k != 1 else "after 1 epoch", k) for k in range(len(ratios))]
    control = picker("ratios", names)
    control.value = len(ratios) - 1
    return Explorer(draw, cliprange=slider("ε", 0.2, 0.05, 0.5, 0.05), epoch=control)


def value_explorer() -> Explorer:
    """The return R and the critic's ε: where the larger square is flat."""

    def draw(target: float, cliprange_value: float):
        return value_clip_figure(0.0, target, cliprange_value)

    return Explorer(
        draw,
        target=slider("return R", 0.8, -1.0, 1.0, 0.1),
        cliprange_value=slider("ε for values", 0.2, 0.05, 0.8, 0.05),
    )
