"""Pairs of the clinic's faults, planted at once: what one fault hides of another.

Without its first fault a pair is its second one alone, and the other way round; the clinic has all of
these runs, so a repair can be shown from the records.
"""

from helpers.studies.faults import FAULTS, Fault
from helpers.tools.validate import require


def together(first: str, second: str, sign: str) -> Fault:
    """Both faults as one. ValueError: they replace the same function, or the same setting."""
    parts = one, other = FAULTS[first], FAULTS[second]
    places = [name for part in parts for name in (*part.wrong, *part.wrong_in_ppo, *part.settings)]
    shared = sorted({name for name in places if places.count(name) > 1})
    require(not shared, "faults", f"two that replace {shared}", "faults in different places")
    return Fault(
        f"{first}_and_{second}",
        f"{one.title}. And: {other.title}",
        one.statistic,
        sign,
        one.wrong | other.wrong,
        one.wrong_in_ppo | other.wrong_in_ppo,
        one.settings | other.settings,
    )


PAIRS = {
    (first, second): together(first, second, sign)
    for first, second, sign in (
        (
            "stop_masked",
            "clip_max",
            "The share of ended responses is 0: easy to see. policy_loss at iteration 1 lies about twice "
            "as far below 0 as with the masked stop token alone, or farther; approx_kl is higher too, but "
            "there the two sets of runs nearly touch.",
        ),
        (
            "raw_scores",
            "beta_100x",
            "Score and value loss have another scale, so KL should be about twice a healthy run's (7 to 9 "
            "with such a reward alone); it stays low. Something holds the policy: the two faults offset "
            "each other.",
        ),
        (
            "reference_moves",
            "kl_sign",
            "KL stays at 0 although the score rises. The wrong sign cannot be seen: it is the sign of "
            "a penalty that is always 0. It shows once the reference is frozen again.",
        ),
        (
            "score_on_pad",
            "whitening_first",
            "The score hardly rises, and the value loss stays high: one fault in the rewards, one in "
            "the returns.",
        ),
    )
}
BY_NAME = {pair.name: pair for pair in PAIRS.values()}
