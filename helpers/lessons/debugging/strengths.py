"""Three of the clinic's faults, milder and grosser: how strong must a fault be to be seen?

The fault itself is the middle one, "clear". `VARIANTS` has the others by name: "dropout_on_mild".
"""

from dataclasses import replace
from functools import partial

from helpers.studies.faults import FAULTS, Fault, leave_dropout_on, sample_cooler

MILD, CLEAR, GROSS = STRENGTHS = "mild", "clear", "gross"


def variant(fault: str, strength: str, size: str, **changes) -> Fault:
    """A fault at another strength; `size` says it in a few words."""
    clear = FAULTS[fault]
    return replace(clear, name=f"{fault}_{strength}", title=f"{clear.title}: {size}", **changes)


def rates(rate: float) -> dict:
    """Settings with this learning rate for actor and critic."""
    return {"learning_rate": rate, "critic_learning_rate": rate}


def dropout(share: float) -> dict:
    """What plants dropout of this share in the actor."""
    return {"draw_prompts": partial(leave_dropout_on, share=share)}


def cooler(temperature: float) -> dict:
    """What plants sampling at this temperature."""
    return {"write_responses": partial(sample_cooler, temperature=temperature)}


VARIANTS = {
    fault.name: fault
    for fault in (
        variant("learning_rate", MILD, "3 times", settings=rates(3e-3)),
        variant("learning_rate", GROSS, "30 times", settings=rates(3e-2)),
        variant("dropout_on", MILD, "1 %", wrong=dropout(0.01)),
        variant("dropout_on", GROSS, "30 %", wrong=dropout(0.3)),
        variant("temperature", MILD, "0.95", wrong=cooler(0.95)),
        variant("temperature", GROSS, "0.4", wrong=cooler(0.4)),
    )
}


def of_strength(fault: str, strength: str) -> str:
    """The kind of the runs with this fault at this strength. KeyError: there are none."""
    kind = fault if strength == CLEAR else f"{fault}_{strength}"
    return (FAULTS | VARIANTS)[kind].name
