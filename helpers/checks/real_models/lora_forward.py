"""`lora_forward`: a frozen layer with a thin adapter beside it (notebook 12)."""

import torch

from helpers.checks.judging.exercise import Exercise, noise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained


def lora_forward(x, weight, a, b, alpha, on):
    """x Wᵀ, and with the adapter on (α/r)·(x Aᵀ) Bᵀ beside it."""
    plain = x @ weight.T
    return plain + alpha / len(a) * (x @ a.T) @ b.T if on else plain


def with_lora(scale=lambda alpha, a: alpha / len(a), delta=None, use=lambda on: on, join=None):
    """`lora_forward` with something changed."""

    def wrong(x, weight, a, b, alpha, on):
        plain = x @ weight.T
        change = scale(alpha, a) * (delta or (lambda x, a, b: (x @ a.T) @ b.T))(x, a, b)
        return (join or torch.add)(plain, change) if use(on) else plain

    return wrong


# fmt: off
LORA = Exercise(
    "lora_forward", "x weight a b alpha on", lora_forward,
    "x Wᵀ + (α / r)·(x Aᵀ) Bᵀ with the adapter on, x Wᵀ with it off (Hu et al. 2022; notebook 12)",
    [
        (noise(0, 2, 4), noise(1, 4, 4), noise(2, 2, 4), noise(3, 4, 2), 4.0, True),
        (noise(0, 2, 4), noise(1, 4, 4), noise(2, 2, 4), noise(3, 4, 2), 4.0, False),
        (noise(4, 3, 5), noise(5, 5, 5), noise(6, 5, 5), noise(7, 5, 5), 8.0, True),
        (noise(4, 3, 5), noise(5, 5, 5), noise(6, 5, 5), noise(7, 5, 5), 8.0, False),
    ],
    [
        ("never off", "With on=False the adapter still works: then there is no reference, and every KL"
         " is 0.", with_lora(use=lambda on: True)),
        ("α / r on everything", "α / r multiplies the adapter's product alone, not x Wᵀ.",
         lambda x, w, a, b, alpha, on: alpha / len(a) * with_lora(scale=lambda *_: 1.0)(x, w, a, b, alpha, on)
         if on else x @ w.T),
        ("the weight not transposed", "`weight` is [out, in], and x holds one input a row: x Wᵀ. Yours is"
         " x W, which runs only where the layer is square.",
         lambda x, w, a, b, alpha, on: lora_forward(x, w.T, a, b, alpha, on)),
        ("a whole number for α / r", "Your scale is α // r, a whole number: divide with /.",
         with_lora(scale=lambda alpha, a: alpha // len(a))),
        ("upside down", "The adapter works when it is off, and not when it is on.",
         with_lora(use=lambda on: not on)),
        ("never on", "The adapter never works: return x Wᵀ alone only where on is False.",
         with_lora(use=lambda on: False)),
        ("no scale", "The product is to be multiplied by α / r.", with_lora(scale=lambda alpha, a: 1.0)),
        ("α alone", "You multiplied by α; divide by the rank r = len(a) too.",
         with_lora(scale=lambda alpha, a: alpha)),
        ("divided by the width", "You divided α by the layer's width, the number of its inputs or of its"
         " outputs; `a` is [r, in] and `b` is [out, r], so the rank is a.shape[0], or len(a).",
         with_lora(scale=lambda alpha, a: alpha / a.shape[1])),
        ("the wrong way round", "α / r, not r / α.", with_lora(scale=lambda alpha, a: len(a) / alpha)),
        ("subtracted", "The product is added to x Wᵀ, not subtracted.", with_lora(join=torch.sub)),
        ("in place of the weights", "The product stands alone: the frozen weights' x Wᵀ is added to it.",
         with_lora(join=lambda plain, change: change)),
        ("multiplied", "You multiplied the two; LoRA adds a product of thin matrices to the weights.",
         with_lora(join=torch.mul)),
    ],
)
# fmt: on

THIN = noise(8, 3, 5), noise(9, 4, 5), noise(10, 1, 5), noise(11, 4, 1)  # in 5, out 4, rank 1
CASES = [
    ("wrong for rank 1", "Right for higher ranks and square weights; `weight` is [out, in], and r may be 1.",
     (*THIN, 2.0, True)),
    ("wrong for α below r", "Right for α above the rank; α / r may be below 1, and no whole number.",
     (noise(4, 3, 5), noise(5, 5, 5), noise(6, 4, 5), noise(7, 5, 4), 1.0, True)),
    ("wrong for one row", "Right for several rows of x, wrong for one.", (THIN[0][:1], *THIN[1:], 2.0, True)),
    ("wrong for forty rows", "Right for a few rows of x, wrong for forty.",
     (noise(12, 40, 5), *THIN[1:], 2.0, True)),
]  # fmt: skip
check_lora_forward = explained(checker(LORA), then=also_on(LORA, *CASES))
