"""Exercise of notebook 04: the share of tokens whose gradient the clip removes, in pieces."""

import torch

from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.exercise import Exercise, floats, noise, prefix_mask
from helpers.checks.judging.judge import checker
from helpers.checks.judging.pieces import Slip, alone, two_at_once
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.sizes import sizes
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, token_by_token, without_effect
from helpers.checks.whitening.averages import other_reductions, reductions
from helpers.whitening import masked_mean


def clipped(rho, advantages, eps):
    """True where the clip removes the gradient: the ratio is too far in the advantage's direction."""
    return (rho > 1 + eps) & (advantages > 0) | (rho < 1 - eps) & (advantages < 0)


def clip_reference(rho, advantages, mask, cliprange):
    """Share of counted tokens that are clipped."""
    return clipped(rho, advantages, cliprange)[mask].float().mean()


def either(high, low):
    """Clipped on one side or the other."""
    return high | low


def share(
    above=lambda r, e: r > 1 + e, below=lambda r, e: r < 1 - e, good=lambda a: a > 0, bad=lambda a: a < 0,
    join=either, finish=lambda hit, r, a, e: hit.float(), reduce=masked_mean,
):  # fmt: skip
    """The share, with another piece."""

    def wrong(ratio, advantages, mask, cliprange):
        high = above(ratio, cliprange) & good(advantages)
        low = below(ratio, cliprange) & bad(advantages)
        hit = join(high, low)
        return reduce(finish(hit, ratio, advantages, cliprange), mask)

    return wrong


def nothing(x, e):
    """False everywhere."""
    return torch.zeros_like(x).bool()


def always(a):
    """True everywhere."""
    return torch.ones_like(a).bool()


def both(low_to_high):
    """Limits above and below at another distance: ε → (lower, upper)."""
    return {
        "above": lambda r, e: r > low_to_high(e)[1],
        "below": lambda r, e: r < low_to_high(e)[0],
    }


def of_some(keep):
    """The clipped tokens among those that `keep(ρ, A, ε)` holds, not among all."""

    def wrong(r, a, mask, e):
        return (clipped(r, a, e) & mask).sum() / (keep(r, a, e) & mask).sum()

    return wrong


def two_shares(r, a, mask, e, least=0):
    """The share among good tokens plus that among bad ones."""
    good, bad = (a > 0) & mask, (a < 0) & mask
    high, low = (clipped(r, a, e) & side for side in (good, bad))
    return high.sum() / good.sum().clamp(min=least) + low.sum() / bad.sum().clamp(min=least)


# fmt: off
ZERO = "A token with A = 0 has no gradient that the clip could remove: "
SLIPS = [Slip(*entry) for entry in [
    ("sign of the advantage ignored", "You counted every ρ outside 1 ± ε. Where the advantage"
     " pulls ρ back inside, the min keeps the gradient.", {"good": always, "bad": always}),
    ("sign of the advantage swapped", "You exchanged the two cases: A > 0 is clipped above"
     " 1 + ε, A < 0 below 1 − ε.", {"good": lambda a: a < 0, "bad": lambda a: a > 0}),
    ("above only", "You left out A < 0, which is clipped below 1 − ε.", {"below": nothing}),
    ("below only", "You left out A > 0, which is clipped above 1 + ε.", {"above": nothing}),
    ("any advantage above", "Above 1 + ε you counted every token; only A > 0 is clipped there.",
     {"good": always}),
    ("any advantage below", "Below 1 − ε you counted every token; only A < 0 is clipped there.",
     {"bad": always}),
    ("above whatever the advantage", "You counted only ρ > 1 + ε, for any advantage.",
     {"below": nothing, "good": always}),
    ("below whatever the advantage", "You counted only ρ < 1 − ε, for any advantage.",
     {"above": nothing, "bad": always}),
    ("bad tokens above as well", "A token with A < 0 is clipped below 1 − ε, not above 1 + ε.",
     {"below": lambda r, e: r > 1 + e}),
    ("good tokens below as well", "A token with A > 0 is clipped above 1 + ε, not below 1 − ε.",
     {"above": lambda r, e: r < 1 - e}),
    ("good tokens alone", "You counted tokens with A > 0 on either side; A > 0 is clipped above 1 + ε, A < 0"
     " below 1 − ε.", {"above": lambda r, e: (r - 1).abs() > e, "below": nothing}),
    ("bad tokens alone", "You counted tokens with A < 0 on either side; A > 0 is clipped above 1 + ε, A < 0"
     " below 1 − ε.", {"below": lambda r, e: (r - 1).abs() > e, "above": nothing}),
    ("always 0", "Your share is 0 in every test case. No token is above 1 + ε and below 1 − ε at once"
     " (join the two"
     " cases by |), and a ratio that was clipped already is never outside. Or is the share rounded?",
     {"join": torch.logical_and}),
    ("share that is not clipped", "You counted the tokens that keep their gradient.",
     {"join": lambda x, y: ~(x | y)}),
    ("the cases subtracted", "You subtracted the two cases; a token of either counts once.",
     {"join": lambda x, y: x.float() - y.float(), "finish": lambda h, r, a, e: h}),
    ("compared with ε", "Compare ρ with 1 ± {cliprange}, not with ±{cliprange}.",
     both(lambda e: (-e, e))),
    ("log-ratio compared with ε", "You compared log ρ with ±ε; compare ρ with 1 ± ε.",
     {"above": lambda r, e: r.log() > e, "below": lambda r, e: r.log() < -e}),
    ("lower limit ε", "The lower limit is 1 − ε, not ε.", {"below": lambda r, e: r < e}),
    ("upper limit ε", "The upper limit is 1 + ε, not ε.", {"above": lambda r, e: r > e}),
    ("limit at 1", "You compared with 1; the limits are 1 ± ε.", {"above": lambda r, e: r > 1}),
    ("limit at 1", "You compared with 1; the limits are 1 ± ε.", {"below": lambda r, e: r < 1}),
    ("limit at 1", "You compared with 1; the limits are 1 ± ε.", both(lambda e: (1, 1))),
    ("limits at 1 ± 2ε", "Your limits are twice as far out as ε says.", both(lambda e: (1 - 2 * e, 1 + 2 *
     e))),
    ("limits at 1 ± ε/2", "Your limits are half as far out as ε says.", both(lambda e: (1 - e / 2, 1 + e /
     2))),
    ("comparisons turned round", "You counted A > 0 below 1 + ε and A < 0 above 1 − ε: turn both"
     " comparisons round.",
     {"above": lambda r, e: r < 1 + e, "below": lambda r, e: r > 1 - e}),
    ("limits exchanged", "The limits are exchanged: A > 0 is clipped above 1 + ε, A < 0 below 1 − ε.",
     both(lambda e: (1 + e, 1 - e))),
    ("A = 0 counted", ZERO + "A > 0 and A < 0 are meant strictly.",
     {"good": lambda a: a >= 0, "bad": lambda a: a <= 0}),
    ("A = 0 counted as bad", ZERO + "A < 0 is meant strictly.", {"bad": lambda a: a <= 0}),
    ("A = 0 counted as good", ZERO + "A > 0 is meant strictly.", {"good": lambda a: a >= 0}),
    *(("ε written in", f"You wrote {x} for ε; use the argument, here {{cliprange}}.",
       both(lambda e, x=x: (1 - x, 1 + x))) for x in (0.2, 0.1)),
    *((words, f"You averaged {what} of the clipped tokens; count them.", {"finish": finish})
      for words, what, finish in (
        ("advantage left in", "the advantages", lambda h, r, a, e: h * a),
        ("ratio left in", "the ratios", lambda h, r, a, e: h * r),
        ("excess left in", "how far ρ is out", lambda h, r, a, e: h * (r - r.clamp(1 - e, 1 + e)).abs()),
        ("size of the advantage left in", "the sizes of the advantages", lambda h, r, a, e: h * a.abs()))),
    *((name, says, {"reduce": reduce}) for name, says, reduce in reductions(lambda f: f, "a yes or no")),
    *((name, says, {"reduce": reduce}) for name, says, reduce in other_reductions(lambda f: f)
      if "instead of mean" not in name),
]]
CLIP = Exercise(
    "clip_fraction", "ratio advantages mask cliprange", clip_reference,
    "a token is clipped where ρ > 1 + ε and A > 0, or ρ < 1 − ε and A < 0; the share of counted"
    " tokens (notebook 04)",
    [
        (floats([1.5, 0.5, 1.4, 0.6, 1.1, 1.7, 1.6, 0.5, 0.5]),
         floats([1.0, 2.0, 3.0, -1.0, 2.0, 0.0, 0.0, 0.0, 1.0]), prefix_mask(9, 8), 0.2),
        (floats([1.5, 0.5, 1.5, 1.9, 0.4], [0.3, 1.25, 0.9, 1.6, 1.8]),
         floats([2.0, -1.0, -1.0, 3.0, -2.0], [1.0, 1.0, -1.0, -0.5, -1.0]),
         prefix_mask(5, 3, 4), 0.3),
        ((0.5 * noise(8, 4, 7)).exp(), noise(9, 4, 7), prefix_mask(7, 7, 3, 6, 2), 0.2),
        ((1.3 * noise(13, 9, 30)).exp(), noise(14, 9, 30),
         prefix_mask(30, 30, 7, 21, 2, 13, 28, 1, 17, 9), 0.15),
    ],
    [
        *alone(share, SLIPS),
        ("equal gains counted", "Where the clipped gain equals the plain one, nothing was clipped:"
         " compare with <, not with <=.",
         lambda r, a, m, e: masked_mean((r.clamp(1 - e, 1 + e) * a <= r * a).float(), m)),
        ("share of differing gains", "You counted tokens whose two gains differ; only where the clipped"
         " one is smaller does the min take it.",
         lambda r, a, m, e: masked_mean((r.clamp(1 - e, 1 + e) * a != r * a).float(), m)),
        ("tokens inside the limits", "You counted the tokens inside 1 ± ε; the clipped ones lie outside, on"
         " their advantage's side.", lambda r, a, m, e: masked_mean(((r - 1).abs() <= e).float(), m)),
        ("gain compared with the limits", "You compared ρA with 1 ± ε; compare ρ.",
         lambda r, a, m, e: masked_mean(((r * a > 1 + e) | (r * a < 1 - e)).float(), m)),
        ("only of the clipped side", "You divided by the number of tokens with A > 0; divide by all"
         " {counted} counted tokens.",
         lambda r, a, mask, e: masked_mean(clipped(r, a, e).float(), mask & (a > 0))),
        ("among the tokens outside", "You divided by the tokens outside 1 ± ε; divide by all {counted}"
         " counted tokens.", of_some(lambda r, a, e: (r - 1).abs() > e)),
        ("among the good tokens", "You divided by the tokens with A > 0; divide by all {counted} counted"
         " tokens.", of_some(lambda r, a, e: a > 0)),
        ("among the bad tokens", "You divided by the tokens with A < 0; divide by all {counted} counted"
         " tokens.", of_some(lambda r, a, e: a < 0)),
        ("among the tokens with an advantage", "You divided by the tokens with A ≠ 0; divide by all"
         " {counted} counted tokens.", of_some(lambda r, a, e: a != 0)),
        ("share of good plus share of bad", "You divided each case by its own tokens and added the shares;"
         " divide both by all {counted} counted tokens.", two_shares),
        ("share of good plus share of bad", "You divided each case by its own tokens and added the shares;"
         " divide both by all {counted} counted tokens.", lambda *given: two_shares(*given, least=1)),
        ("share of good plus share of bad", "You averaged the share of good and that of bad tokens; divide"
         " both by all {counted} counted tokens.", lambda *given: two_shares(*given) / 2),
        ("odds", "You divided by the tokens that are not clipped; divide by all {counted} counted tokens.",
         of_some(lambda r, a, e: ~clipped(r, a, e))),
        ("share of the responses", "You counted responses with any clipped token; count tokens.",
         lambda r, a, m, e: (clipped(r, a, e) & m).any(1).float().mean()),
        ("share of the responses", "You counted responses whose tokens are all clipped; count tokens.",
         lambda r, a, m, e: (clipped(r, a, e) | ~m).all(1).float().mean()),
        ("always 1", "You return 1 in every test case: is it whether any token is clipped? Return the share.",
         lambda r, a, m, e: (clipped(r, a, e) & m).any().float()),
    ],
)
# fmt: on


def one_token(words: str, rho: float, advantage: float, eps: float = 0.2) -> tuple:
    """A case of one token, for `case_by_case`."""
    return words, (floats([rho]), floats([advantage]), prefix_mask(1, 1), eps)


BETWEEN = (
    "lower limit not 1 − ε",
    "Right for ratios far from the limits; this one lies near 1 − ε: A < 0 is clipped below 1 − ε exactly.",
    (floats([0.82, 0.81, 1.5, 0.79]), floats([-1.0, -2.0, 1.0, -1.0]), prefix_mask(4, 4), 0.2),
)
ABOVE = (
    "upper limit not 1 + ε",
    "Right for ratios far from the limits; this one lies near 1 + ε: A > 0 is clipped above 1 + ε exactly.",
    (floats([1.21, 1.24, 0.5, 1.19]), floats([1.0, 2.0, 1.0, 1.0]), prefix_mask(4, 4), 0.2),
)
AT_THE_EDGE = (  # 1.25 and 0.75 are exact in a float32
    "exactly at the edge",
    "Right for ratios beside the limits; one that is exactly 1 + ε or 1 − ε still has its gradient: ρ > 1 + ε"
    " and ρ < 1 − ε are meant strictly.",
    (floats([1.25, 0.75, 1.5, 0.5]), floats([1.0, -1.0, 1.0, 1.0]), prefix_mask(4, 4), 0.25),
)
SMALL_ADVANTAGES = (
    "small advantages",
    "Right for advantages around 1; one of 1e-4 has a gradient too, and its sign alone counts.",
    (floats([1.5, 0.5, 1.0]), floats([1e-4, -1e-4, 1.0]), prefix_mask(3, 3), 0.2),
)
check_clip_fraction = explained(
    checker(CLIP),
    then=also_on(CLIP, BETWEEN, ABOVE, AT_THE_EDGE, SMALL_ADVANTAGES, *sizes(CLIP.probes[2])),
    cause=one_of(
        CLIP,
        two_at_once(share, SLIPS),
        other_inputs(),
        result_changed,
        case_by_case(
            one_token("ρ > 1 + ε and A > 0", 1.6, 1.5),
            one_token("ρ > 1 + ε and A < 0", 1.6, -1.5),
            one_token("ρ < 1 − ε and A > 0", 0.4, 1.5),
            one_token("ρ < 1 − ε and A < 0", 0.4, -1.5),
            one_token("ρ lies within 1 ± ε and A > 0", 1.1, 1.5),
            one_token("ρ lies within 1 ± ε and A < 0", 0.9, -1.5),
            one_token("A = 0", 1.6, 0.0),
        ),
        token_by_token("ratio", 5.0),
        without_effect,
    ),
)
