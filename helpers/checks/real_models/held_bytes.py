"""`held_bytes`: what a run with Adam holds in memory all the time (notebook 12)."""

import torch
from torch import Tensor

from helpers.checks.judging.exercise import Exercise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained


def held_bytes(parameters, adapter, method):
    """Bytes that actor, critic and reference hold all the time, with Adam, in float32."""
    if method == "full":
        return in_bytes(2 * 16 * parameters + 4 * parameters)
    return in_bytes(4 * parameters + 2 * 16 * adapter)


def in_bytes(count: float) -> Tensor:
    """A count as a tensor."""
    return torch.tensor(float(count))


def held(trained=16, frozen=4, trained_models=2, copies=1, lora=None, full=None):
    """`held_bytes` with something changed."""

    def wrong(parameters, adapter, method):
        rule = full or (lambda n, a: trained_models * trained * n + copies * frozen * n)
        if method == "lora":
            rule = lora or (lambda n, a: frozen * n + trained_models * trained * a)
        return in_bytes(rule(parameters, adapter))

    return wrong


# fmt: off
HELD = Exercise(
    "held_bytes", "parameters adapter method", held_bytes,
    "full: (16 + 16 + 4)·N;  lora: 4·N + (16 + 16)·a  (notebook 12)",
    [(10, 3, "full"), (135_000, 2_400, "full"), (10, 3, "lora"),
     (135_000, 2_400, "lora")],
    [
        ("half of what is trained", "Half of what is trained is missing: a trained number is itself, its"
         " gradient and Adam's two moments (4 + 4 + 8 bytes), and the critic is trained as the actor is.",
         held(trained=8)),
        ("12 bytes a trained number", "Your bytes are those of 12 a trained number. It takes 16: itself, its"
         " gradient and two moments of Adam, 4 bytes each, the actor's and the critic's.",
         held(trained=12)),
        ("no reference", "The reference is a copy of 4·N bytes where the actor is trained in full.",
         held(copies=0)),
        ("half precision", "You count 2 bytes for a frozen number; here it is float32: 4.",
         held(frozen=2)),
        ("numbers, not bytes", "You counted numbers; one float32 takes 4 bytes.",
         held(trained=4, frozen=1)),
        ("LoRA with a copy for each model", "Under LoRA one set of weights serves actor, critic and"
         " reference: 4·N once.", held(lora=lambda n, a: 12 * n + 32 * a)),
        ("LoRA with a reference of its own", "Under LoRA the reference is the actor with its adapter off:"
         " no second copy of the weights.", held(lora=lambda n, a: 8 * n + 32 * a)),
        ("LoRA trains everything", "Under LoRA the weights have neither gradients nor moments: they take"
         " 4·N, and only the adapters take 16 a number.", held(lora=lambda n, a: 16 * n + 32 * a)),
        ("LoRA as in full", "For 'lora' your bytes are those of 'full'.", held(lora=lambda n, a: 36 * n)),
        ("the adapter alone", "The frozen weights are there too: 4·N.",
         held(lora=lambda n, a: 32 * a)),
        ("the reference trained", "The reference is frozen: 4 bytes a number, not 16.",
         held(full=lambda n, a: 48 * n)),
    ],
    group="method",
)
# fmt: on

LARGE = "as large as a real model: 7e9 numbers do not fit into 32 bits"
CASES = [
    *(("wrong for a large model", f"Right for small models, wrong for one {LARGE}.",
       (7_000_000_000, 20_000_000, method)) for method in ("full", "lora")),
    ("wrong without an adapter", "With an adapter of 0 numbers the frozen model is left.", (10, 0, "lora")),
]  # fmt: skip
check_held_bytes = explained(checker(HELD), then=also_on(HELD, *CASES))
