"""What a learner's fit did at its steps, seen by torch's own hooks: why weights stayed as they were."""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook


@dataclass
class Fit:
    """Seen during one fit: its calls of `step`, and which of the models they could move."""

    steps: int = 0
    owned: set[str] = field(
        default_factory=set
    )  # models with weights in an optimizer that made a step
    reached: set[str] = field(default_factory=set)  # models that backward() gave a gradient
    pulled: bool = False  # whether any step found a gradient other than 0
    uneven: bool = False  # whether any step had groups with different learning rates
    rates: list[float] = field(default_factory=list)  # the learning rate of each step
    pulls: list[float] = field(default_factory=list)  # the length of each step's gradient
    settings: dict = field(default_factory=dict)  # of the optimizer, such as its momentum


def watch(function: Callable, models: dict[str, nn.Module], arguments: tuple) -> Fit:
    """Call `function(*arguments)` and watch `models` (name → a model among the arguments)."""
    seen, owners = Fit(), {}
    for name, model in models.items():
        for weight in model.parameters():
            owners[id(weight)] = name
            weight.register_hook(lambda _, name=name: seen.reached.add(name))

    def before_step(optimizer: Optimizer, *_) -> None:
        seen.steps += 1
        seen.settings = {k: x for k, x in optimizer.param_groups[0].items() if k != "params"}
        seen.rates.append(optimizer.param_groups[0]["lr"])
        weights = [w for group in optimizer.param_groups for w in group["params"]]
        squares = [float(w.grad.square().sum()) for w in weights if w.grad is not None]
        seen.pulls.append(sum(squares) ** 0.5)
        seen.uneven |= len({group["lr"] for group in optimizer.param_groups}) > 1
        for weight in (w for group in optimizer.param_groups for w in group["params"]):
            seen.owned |= {owners[id(weight)]} if id(weight) in owners else set()
            seen.pulled |= weight.grad is not None and bool((weight.grad != 0).any())

    hook = register_optimizer_step_pre_hook(before_step)
    try:
        function(*arguments)
    finally:
        hook.remove()
    return seen


def why_still(seen: Fit, mistake: str) -> tuple[str, str] | None:
    """Name and message behind "no step" or "… not trained", or None where that says it already."""
    model = mistake.split()[0]
    if mistake == f"{model} not trained" and model in seen.owned and model not in seen.reached:
        return f"no gradient to the {model}", (
            f"Step 4: your optimizer has the {model}'s parameters, but no gradient reaches them: no"
            f" no_grad and no detach on the way from the loss to the {model}."
        )
    if mistake != "no step" or not seen.steps:
        return None
    if not seen.owned:
        return "other weights in the optimizer", (
            "Step 4: your optimizer steps, but it holds none of the weights you were given: hand it"
            " those of encoder and head, not of copies."
        )
    if not seen.reached:
        return "no backward to the weights", (
            "Step 4: step() is called, but no gradient ever reaches encoder or head. Is loss.backward()"
            " called, and on the loss itself, not on a new tensor made from its number?"
        )
    if not seen.owned & seen.reached:
        return "gradients for other weights", (
            f"Step 4: your optimizer holds the {' and '.join(sorted(seen.owned))}'s parameters, but gradients"
            f" reach only the {' and '.join(sorted(seen.reached))}'s."
        )
    if not seen.pulled:
        return "gradients cleared before the step", (
            "Step 4: step() finds no gradient, though backward() made one. Does zero_grad() come between the"
            " two? Clear first."
        )
    return None
