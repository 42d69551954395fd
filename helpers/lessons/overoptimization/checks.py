"""Exercises of lesson 08: best of n and its KL, the effect of an edit; a reward and pairs of one's own."""

import torch
from torch import Tensor

from helpers.kit.exercise import Seen, expect, floats, noise, tensor_of
from helpers.kit.judge import exercise
from helpers.kit.patterns import form
from helpers.lessons.overoptimization.examined import (  # noqa: F401 (the lesson takes all from here)
    FLATTERING,
    check_my_reward,
    check_patch_pairs,
)

check_keep_best = exercise(
    """\
def keep_best(scores, gold, n):
    ordered = scores.sort(dim=1).values
    low = torch.searchsorted(ordered, scores)
    high = torch.searchsorted(ordered, scores, right=True)
    N = scores.shape[1]
    chance = ((high / N) ** n - (low / N) ** n) / (high - low)
    proxy = (chance * scores).sum(dim=1).mean()
    gold_kept = (chance * gold).sum(dim=1).mean()
    kl = torch.xlogy(chance, chance * N).sum(dim=1).mean()
    return chance, proxy, gold_kept, kl
""",
    "chance = ((high/N)ⁿ − (low/N)ⁿ)/(high − low); kept: Σ chance · score of each row, then the mean;"
    " KL = Σ chance · log(chance / (1/N)) (notebook 08)",
    [
        (floats([0.3, -1.2, 0.8, 1.9]), floats([1.5, -2.0, 0.2, -1.0]), 2),
        (noise(5, 2, 7), noise(6, 2, 7), 1),
        (floats([1.0, 0.0, 1.0, 0.0, 0.0], [0.5, 2.0, 2.0, -1.0, 0.1]), noise(7, 2, 5), 3),
        (noise(8, 3, 9), noise(9, 3, 9), 5),
    ],
    """\
ties not shared: Samples of equal score each get the whole group's chance: divide it by their number.
-  / (high - low)
+
equal scores by their place: Samples of equal score have other chances: count those below, and those below or
 equal. Equal ones share alike.
-     low = torch.searchsorted(ordered, scores)
-     high = torch.searchsorted(ordered, scores, right=True)
+     high = scores.argsort(dim=1).argsort(dim=1) + 1
+     low = high - 1
a density: That is the derivative of (high/N)ⁿ, and a row does not sum to 1. One sample is kept: (all n at or
 below) − (all n below).
- ((high / N) ** n - (low / N) ** n) / (high - low)
+ n * (high / N) ** (n - 1) / N
ranked by gold: You rank by gold. Only the proxy is seen when one is kept.
- scores.sort(dim=1).values
-     low = torch.searchsorted(ordered, scores)
-     high = torch.searchsorted(ordered, scores, right=True)
+ gold.sort(dim=1).values
+     low = torch.searchsorted(ordered, gold)
+     high = torch.searchsorted(ordered, gold, right=True)
the maximum: That is the best of all N. Weigh every sample by its chance.
- (chance * scores).sum(dim=1).mean()
+ scores.amax(1).mean()
the formula: log n − (n − 1)/n holds without ties and for endless N. Measure it: sum chance · log(chance · N).
- torch.xlogy(chance, chance * N).sum(dim=1).mean()
+ torch.tensor(float(n)).log() - (n - 1) / n
""",
    results=("chance", "proxy", "gold_kept", "kl"),
    advice="With n = 1 nothing is chosen: each sample has 1/N, and the KL is 0. A row's chances sum to 1, and"
    " equal scores have equal ones: (all n at or below) − (all n below), shared.",
    further=[
        (
            "N is 12 and n is 40: 12⁴⁰ leaves 64 bits, and a float32: divide by N before the power",
            (noise(12, 2, 12), noise(13, 2, 12), 40),
        ),
        (
            "n is 300: (1/8)³⁰⁰ rounds to 0, and 0 · log 0 is NaN. torch.xlogy(x, y) is x · log y, and 0"
            " where x is 0",
            (noise(10, 1, 8), noise(11, 1, 8), 300),
        ),
    ],
)


def effect_seen(function, before: Tensor, after: Tensor) -> Seen:
    """Mean change and standard error by their names."""
    wants = "one tensor of two numbers, the mean change, then its standard error"
    both = tensor_of(function(before, after), (2,), wants)
    return {"mean change": both[0], "standard error": both[1]}


check_edit_effect = exercise(
    """\
def edit_effect(before, after):
    change = after - before
    return torch.stack([change.mean(), change.std() / len(change) ** 0.5])
""",
    "d = after − before; mean of d, and std(d)/√N (notebook 08)",
    [
        (floats(0.0, 1.0, 3.0, -1.0), floats(1.0, 1.5, 5.0, 0.0)),
        (noise(12, 9), noise(12, 9) * 1.1 + 0.4),
        (noise(13, 30), noise(14, 30)),
    ],
    """\
size of the differences: You took absolute values: falls would count as rises.
- after - before
+ (after - before).abs()
not paired: You added the variances of both sides. Each text is its own control: take the spread of the
 differences.
- change.std()
+ (after.var() + before.var()) ** 0.5
biased std: You divided by N inside the standard deviation; the unbiased one has N − 1.
- change.std()
+ change.std(unbiased=False)
spread about zero: You took squares about zero; subtract the mean change first (std).
- change.std()
+ (change.square().sum() / (len(change) - 1)).sqrt()
""",
    results=("mean change", "standard error"),
    observe=effect_seen,
    further=[
        (
            "some texts did not move: they count, too",
            (floats(1.0, 2.0, 3.0, 4.0), floats(1.0, 2.5, 3.0, 5.0)),
        ),
        (
            "scores are large against the changes: E[d²] − E[d]² loses its digits; use .std()",
            (1000 + noise(15, 6), 1300 + noise(15, 6) + 0.1 * noise(16, 6)),
        ),
    ],
)


def gradient_seen(function, logprobs: Tensor, teacher_logprobs: Tensor) -> Seen:
    """The loss's gradient with respect to the policy's log-probs: losses of other values may have it."""
    trained = logprobs.clone().requires_grad_()
    loss = function(trained, teacher_logprobs)
    says = "Return a scalar tensor that depends on `logprobs`, to call .backward() on. You return"
    fine = isinstance(loss, Tensor) and loss.dim() == 0 and loss.requires_grad
    got = form(loss) if isinstance(loss, Tensor) else type(loss).__name__
    expect(fine, "no scalar with a gradient", f"{says} {got}.")
    (gradient,) = torch.autograd.grad(loss, trained, allow_unused=True)
    return {"gradient": torch.zeros_like(trained) if gradient is None else gradient}


check_distillation_loss = exercise(
    """\
def distillation_loss(logprobs, teacher_logprobs):
    log_ratios = (logprobs - teacher_logprobs).detach()
    return (log_ratios * logprobs).mean()
""",
    "∇KL(π‖π_teacher) = E[(log π(y) − log π_teacher(y)) · ∇log π(y)], y sampled from π (lesson 08)",
    [
        (floats(-2.0, -1.0), floats(-1.0, -3.0)),
        (noise(17, 7) - 9, noise(18, 7) - 9),
        (noise(19, 12) * 4 - 20, noise(20, 12) * 4 - 20),
    ],
    """\
the estimate differentiated: Your gradient has mean zero on the policy's own samples: they move with the
 policy, which the plain derivative of a mean over them does not see.
- return (log_ratios * logprobs).mean()
+ return (logprobs - teacher_logprobs).mean()
a cost with a gradient: The factor is a cost, a fixed number: stop its gradient.
- .detach()
+
the wrong sign: A cost is minimised: your step makes unlikely what the teacher likes.
- logprobs - teacher_logprobs
+ teacher_logprobs - logprobs
teacher forgotten: Without the teacher's log-probs the policy only spreads out.
- (logprobs - teacher_logprobs)
+ logprobs
sum over the batch: Average over the batch, so that the step does not grow with it.
- .mean()
+ .sum()
""",
    results=("gradient",),
    observe=gradient_seen,
)
