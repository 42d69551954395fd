"""Exercise of notebook 04: the critic's clipped loss, in pieces: clip, error, choice, mean, factor."""

import torch

from helpers import ppo
from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judging.extra_term import with_a_term
from helpers.checks.judging.judge import checker
from helpers.checks.judging.pieces import Slip, alone, two_at_once
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.sizes import far_out, sizes
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, token_by_token, without_effect
from helpers.checks.ppo.ratio import BATCH
from helpers.checks.whitening.averages import other_reductions, reductions
from helpers.whitening import masked_mean


def near(v, old, r, eps):
    """V, clipped to V_old ± ε."""
    return torch.clamp(v, old - eps, old + eps)


def larger(plain, clipped, eps):
    """The larger square."""
    return torch.maximum(plain, clipped)


def critic(
    clip=near, error=torch.square, choose=larger, reduce=masked_mean, factor=0.5,
    value=lambda v, old: v, target=lambda r, v, old: r,
):  # fmt: skip
    """Value loss with another piece."""

    def wrong(values, old_values, returns, mask, eps):
        v, r = value(values, old_values), target(returns, values, old_values)
        clipped = clip(v, old_values, r, eps)
        return factor * reduce(choose(error(v - r), error(clipped - r), eps), mask)

    return wrong


def in_proportion(v, old, r, e):
    """V_old·(1 ± ε)."""
    ends = old * (1 - e), old * (1 + e)
    return torch.clamp(v, torch.minimum(*ends), torch.maximum(*ends))


def huber(x):
    """Half a square near 0, straight beyond 1; doubled, as the ½ comes later."""
    return 2 * torch.nn.functional.huber_loss(x, torch.zeros_like(x), reduction="none")


# fmt: off
SLIPS = [Slip(*entry) for entry in [
    ("min instead of max", "You took the smaller square; take the larger one, so that a large step of V"
     " brings no gain.", {"choose": lambda x, y, e: torch.minimum(x, y)}),
    ("half missing", "Multiply the mean of the squares by ½.", {"factor": 1.0}),
    ("a quarter", "The factor in front is ½; yours is ¼.", {"factor": 0.25}),
    ("doubled", "The factor in front is ½; yours is 2.", {"factor": 2.0}),
    ("no clip", "Your result is (V − R)²: ε = {cliprange_value} has no effect. (A clip around R instead"
     " of V_old has no effect either.)", {"choose": lambda x, y, e: x}),
    ("clip without max", "You used only the clipped value; take the larger of the two squares.",
     {"choose": lambda x, y, e: y}),
    ("squares added", "You added the two squares; take the larger one.", {"choose": lambda x, y, e: x + y}),
    ("squares averaged", "You averaged the two squares; take the larger one.",
     {"choose": lambda x, y, e: (x + y) / 2}),
    ("the half on one square", "You halved one of the two squares before the comparison; both or the mean"
     " take the ½.", {"choose": lambda x, y, e: 2 * torch.maximum(x, y / 2)}),
    ("the half on one square", "You halved one of the two squares before the comparison; both or the mean"
     " take the ½.", {"choose": lambda x, y, e: 2 * torch.maximum(x / 2, y)}),
    ("the half on one square", "You halved one of the two squares before the comparison, and once more.",
     {"choose": lambda x, y, e: torch.maximum(x, y / 2)}),
    ("the half on one square", "You halved one of the two squares before the comparison, and once more.",
     {"choose": lambda x, y, e: torch.maximum(x / 2, y)}),
    ("squares multiplied", "You multiplied the two squares; take the larger one.",
     {"choose": lambda x, y, e: x * y}),
    *(("squared error clipped", "You clipped the squared error; clip V to V_old ± ε, before the square.",
       {"choose": choose}) for choose in (
        lambda x, y, e: x.clamp(max=e), lambda x, y, e: x.clamp(-e, e),
        lambda x, y, e: x.clamp(1 - e, 1 + e), lambda x, y, e: torch.maximum(x, x.clamp(1 - e, 1 + e)))),
    ("0 where clipped", "A token whose value is clipped still has its error; you set it to 0.",
     {"choose": lambda x, y, e: torch.where(x == y, x, 0.0)}),
    ("clipped around the returns", "You clipped the error V − R; clip V around V_old.",
     {"choose": lambda x, y, e: y, "clip": lambda v, o, r, e: r + (v - r).clamp(-e, e)}),
    ("clipped to ±ε", "You clipped V to ±{cliprange_value}; clip it to V_old ± ε.",
     {"clip": lambda v, o, r, e: v.clamp(-e, e)}),
    ("clipped like a ratio", "1 ± ε is for the policy's ratio; here the range is V_old ± ε.",
     {"clip": lambda v, o, r, e: v.clamp(1 - e, 1 + e)}),
    ("clipped in proportion to the old value", "You clipped V to V_old·(1 ± ε); the range is V_old ± ε.",
     {"clip": in_proportion}),
    ("clipped in proportion to the old value", "You clipped V to V_old·(1 ± ε); the range is V_old ± ε.",
     {"clip": lambda v, o, r, e: torch.clamp(v, o * (1 - e), o * (1 + e))}),
    ("clipped above only", "You clipped only at V_old + ε; clip at V_old − ε too.",
     {"clip": lambda v, o, r, e: torch.minimum(v, o + e)}),
    ("clipped below only", "You clipped only at V_old − ε; clip at V_old + ε too.",
     {"clip": lambda v, o, r, e: torch.maximum(v, o - e)}),
    ("old value for the clipped one", "You compared with V_old itself; the second value is V, clipped to"
     " V_old ± ε.", {"clip": lambda v, o, r, e: o}),
    ("always the full step", "You took V_old ± ε whether V is there or not; a clip keeps V where it is"
     " nearer.", {"clip": lambda v, o, r, e: o + e * (v - o).sign()}),
    ("upper limit for the clipped value", "You took V_old + ε; clip V to V_old ± ε.",
     {"clip": lambda v, o, r, e: o + e}),
    ("lower limit for the clipped value", "You took V_old − ε; clip V to V_old ± ε.",
     {"clip": lambda v, o, r, e: o - e}),
    ("the change alone", "You clipped the change V − V_old, and forgot to add V_old again.",
     {"clip": lambda v, o, r, e: (v - o).clamp(-e, e)}),
    ("the change subtracted", "The clipped change is added to V_old; you subtracted it.",
     {"clip": lambda v, o, r, e: o - (v - o).clamp(-e, e)}),
    ("the clipped change added to V", "The clipped change is added to V_old, not to V.",
     {"clip": lambda v, o, r, e: v + (v - o).clamp(-e, e)}),
    ("old value clipped around the new one", "You clipped V_old around V; clip V around V_old.",
     {"clip": lambda v, o, r, e: torch.clamp(o, v - e, v + e)}),
    ("returns clipped around the old value", "You clipped the return around V_old; clip V.",
     {"clip": lambda v, o, r, e: v - torch.clamp(r, o - e, o + e) + r}),
    ("ε written in", "You wrote 0.2 for ε; use the argument, here {cliprange_value}.",
     {"clip": lambda v, o, r, e: near(v, o, r, 0.2)}),
    ("ε written in", "You wrote 0.1 for ε; use the argument, here {cliprange_value}.",
     {"clip": lambda v, o, r, e: near(v, o, r, 0.1)}),
    ("range of 2ε", "You clip twice as far out as ε says.", {"clip": lambda v, o, r, e: near(v, o, r, 2 *
     e)}),
    ("range of ε/2", "You clip half as far out as ε says.", {"clip": lambda v, o, r, e: near(v, o, r, e /
     2)}),
    ("absolute error", "You took |V − R|; the loss squares it.", {"error": torch.abs}),
    ("no square", "You took V − R as it is; the loss squares it.", {"error": lambda x: x}),
    ("Huber loss", "That is a Huber loss, straight for large errors; the loss is the square.",
     {"error": huber}),
    ("log-cosh", "That is log cosh of the error; the loss is the square.",
     {"error": lambda x: x.cosh().log()}),
    ("third power", "You took the third power of the error; the loss squares it.",
     {"error": lambda x: x.abs() ** 3}),
    ("fourth power", "You squared the error twice.", {"error": lambda x: x**4}),
    ("old values instead of values", "You used V_old − R; use V − R, because V is trained.",
     {"value": lambda v, o: o}),
    ("old values as the target", "You used V − V_old; the target is the return R.",
     {"target": lambda r, v, o: o}),
    ("advantages as the target", "Your target is R − V_old, the advantage; it is the return R.",
     {"target": lambda r, v, o: r - o}),
    ("old values added to the target", "Your target is R + V_old; it is the return R.",
     {"target": lambda r, v, o: r + o}),
    ("returns clipped", "You clipped the returns; clip V to V_old ± ε.",
     {"target": lambda r, v, o: r.clamp(-0.2, 0.2)}),
    ("returns added", "You added the return; the error is V − R.", {"target": lambda r, v, o: -r}),
    ("returns whitened", "You whitened the returns; take them as they are.",
     {"target": lambda r, v, o: (r - r.mean()) / (r.std() + 1e-8)}),
    *((name, says, {"reduce": reduce}) for name, says, reduce in reductions(lambda f: f, "a loss")),
    *((name, says, {"reduce": reduce}) for name, says, reduce in other_reductions(lambda f: f)),
]]


def exchanged(v, old, r, mask, e):
    """The old values in the place of the new ones, and the other way round."""
    return critic()(old, v, r, mask, e)


VALUE = Exercise(
    "value_loss", "values old_values returns mask cliprange_value",
    lambda *arguments: ppo.value_loss(*arguments)[0],
    "½·mean max((V − R)², (clip(V, V_old ± ε) − R)²) over counted tokens"
    " (Huang et al. 2024; notebook 04)",
    [
        (floats([1.0, 0.0, 2.0, 5.0]), floats([0.4, 0.7, 2.1, 1.0]), floats([1.6, -2.0, 2.5, -3.0]),
         prefix_mask(4, 3), 0.2),
        (noise(4, 3, 5), noise(5, 3, 5), noise(6, 3, 5), BATCH[2], 0.3),
    ],
    [
        ("values and old values swapped", "You exchanged V and V_old: V is trained, and clipped around"
         " V_old.", exchanged),
        *alone(critic, SLIPS),
        ("larger of two means", "You took the larger of two means; take the larger square of each token,"
         " then the mean.", lambda v, old, r, mask, e: 0.5 * torch.maximum(
             masked_mean((v - r).square(), mask), masked_mean((near(v, old, r, e) - r).square(), mask))),
        *((f"{word} value", f"You took the {word} value, V or the clipped one; take the larger square.",
           lambda v, old, r, mask, e, pick=pick: 0.5 * masked_mean(
               (pick(v, near(v, old, r, e)) - r).square(), mask))
          for word, pick in (("larger", torch.maximum), ("smaller", torch.minimum))),
        ("square of the mean", "You averaged the errors and squared the mean; square each first.",
         lambda v, old, r, mask, e: 0.5 * masked_mean(v - r, mask).square()),
        ("root of the mean", "You took the root of the mean square; leave it as it is.",
         lambda v, old, r, mask, e: critic()(v, old, r, mask, e).sqrt()),
        ("root of the mean", "You took the root of the mean square; leave it as it is.",
         lambda v, old, r, mask, e: critic(factor=1.0)(v, old, r, mask, e).sqrt()),
    ],
    gradient=("values",),
)
# fmt: on


def one_token(words: str, value: float, old: float, target: float) -> tuple:
    """A case of one token, for `case_by_case`; ε = 0.2."""
    return words, (floats([value]), floats([old]), floats([target]), prefix_mask(1, 1), 0.2)


FAR = [
    far_out("errors are large, and ε is 5", (
        floats([60.0, -8.0]), floats([40.0, -9.0]), floats([-40.0, 5.0]), prefix_mask(2, 2), 5.0)),
    far_out("V moved by 90", (
        floats([90.0, -70.0]), floats([0.0, 1.0]), floats([100.0, 2.0]), prefix_mask(2, 2), 0.1)),
]  # fmt: skip
check_value_loss = explained(
    checker(VALUE),
    then=also_on(VALUE, *FAR, *sizes(VALUE.probes[1])),
    cause=one_of(
        VALUE,
        two_at_once(critic, SLIPS),
        other_inputs(),
        with_a_term({
            "the mean of V²": lambda v, o, r, m, e: v[m].square().mean(),
            "the mean of (V − V_old)²": lambda v, o, r, m, e: (v - o)[m].square().mean(),
            "the mean of V − R": lambda v, o, r, m, e: (v - r)[m].mean(),
        }),
        result_changed,
        without_effect,
        case_by_case(
            one_token("V lies within V_old ± ε", 1.1, 1.0, 2.0),
            one_token("V is above V_old + ε and R is higher still", 2.0, 1.0, 3.0),
            one_token("V is above V_old + ε and R is lower", 2.0, 1.0, 0.0),
            one_token("V is below V_old − ε and R is lower still", 0.0, 1.0, -1.0),
            one_token("V is below V_old − ε and R is higher", 0.0, 1.0, 2.0),
        ),
        token_by_token("returns", 0.05),
    ),
)  # fmt: skip
