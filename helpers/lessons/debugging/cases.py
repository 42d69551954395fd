"""The cases: runs with one fault, milder or grosser, with two at once, and healthy ones."""

import tomllib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from helpers.sampling import Responses
from helpers.state import RLHFState
from helpers.steps import full_logprobs
from helpers.studies.faults import FAULTS, Fault, sample_top_k
from helpers.tools.validate import require

# --- strengths: how strong must a fault be to be seen? --------------------------------------------

MILD, CLEAR, GROSS = STRENGTHS = "mild", "clear", "gross"  # the fault itself is the middle one
RATES = ("learning_rate", "critic_learning_rate")


def variant(fault: str, strength: str, size: str, settings: dict | None = None, **of_step) -> Fault:
    """A fault with other settings of the run, or of its step; `size` says the strength in a few words."""
    clear = FAULTS[fault]
    named = replace(clear, name=f"{fault}_{strength}", title=f"{clear.title}: {size}")
    wrong = {name: partial(step, **of_step) for name, step in clear.wrong.items()}
    return replace(named, wrong=wrong, settings=settings or clear.settings)


def raw_top_k(state: RLHFState, prompts: list[str]) -> Responses:
    """Sample with top-k; the sampler, too, hands back log-probs over all tokens."""
    responses = sample_top_k(state, prompts)
    logprobs = full_logprobs(state.models.actor, state, responses)
    return replace(responses, logprobs=logprobs)


RAW = variant("top_k", "raw", "the engine returns log π")
VARIANTS = {
    fault.name: fault
    for fault in (
        variant("learning_rate", MILD, "3 times", settings=dict.fromkeys(RATES, 3e-3)),
        variant("learning_rate", GROSS, "30 times", settings=dict.fromkeys(RATES, 3e-2)),
        variant("dropout_on", MILD, "1 %", share=0.01),
        variant("dropout_on", GROSS, "30 %", share=0.3),
        variant("temperature", MILD, "0.95", temperature=0.95),
        variant("temperature", GROSS, "0.4", temperature=0.4),
        replace(RAW, wrong={"generate_responses": raw_top_k}),
    )
}


def of_strength(fault: str, strength: str) -> str:
    """The kind of the runs with this fault at this strength. KeyError: there are none."""
    kind = fault if strength == CLEAR else f"{fault}_{strength}"
    return (FAULTS | VARIANTS)[kind].name


# --- pairs: what one fault hides of another -------------------------------------------------------


def together(first: str, second: str, sign: str) -> Fault:
    """Both faults as one. ValueError: they replace the same function, or the same setting."""
    one, other = FAULTS[first], FAULTS[second]
    shared = sorted({*one.wrong, *one.settings} & {*other.wrong, *other.settings})
    require(not shared, "faults", f"two that replace {shared}", "faults in different places")
    return Fault(
        f"{first}_and_{second}",
        f"{one.title}. And: {other.title}",
        sign,
        one.wrong | other.wrong,
        one.settings | other.settings,
    )


WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
PAIRS = {tuple(two["faults"]): together(*two["faults"], two["sign"]) for two in WORDS["pairs"]}
PLANTED = FAULTS | VARIANTS | {pair.name: pair for pair in PAIRS.values()}

# --- cases ----------------------------------------------------------------------------------------

FIRST_SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Case:
    """Runs of one kind, and what is wrong with them."""

    kind: str  # of the recorded runs
    faults: tuple[str, ...] = ()  # names in `FAULTS`; healthy without any
    sign: str = ""  # what gives it away
    seeds: tuple[int, ...] = FIRST_SEEDS  # the first one's samples are shown

    @property
    def title(self) -> str:
        """The diagnosis, as a person would say it."""
        return ". And: ".join(FAULTS[name].title for name in self.faults) or "Nothing is wrong"

    def without(self, fault: str) -> "Case":
        """The case after this one of two faults is repaired. ValueError: it is not there."""
        left = list(self.faults)
        left.remove(fault)
        return single(*left)


def single(name: str) -> Case:
    """The case with this fault alone."""
    return Case(name, (name,), FAULTS[name].sign)


REPAIRED_IN_CODE = "score_on_pad", "whitening_first"  # the case of the lesson's large exercise
CASES = (
    *map(single, FAULTS),
    *(Case(PAIRS[two].name, two, PAIRS[two].sign) for two in PAIRS if two != REPAIRED_IN_CODE),
    *(
        Case(**one | {name: tuple(one[name]) for name in ("faults", "seeds")})
        for one in WORDS["cases"]
    ),
)
