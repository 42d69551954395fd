"""The clinic's patients: runs with one fault, with two, with a mild one, and healthy ones."""

from dataclasses import dataclass

from helpers.lessons.debugging.strengths import MILD, of_strength
from helpers.lessons.debugging.study import HEALTHY_PATIENT_SEED
from helpers.lessons.debugging.two_faults import PAIRS
from helpers.studies.faults import FAULTS, Fault

FIRST_SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Patient:
    """Runs of one kind, and what is wrong with them."""

    kind: str  # of the recorded runs
    faults: tuple[str, ...] = ()  # names in `FAULTS`; healthy without any
    sign: str = ""  # what gives it away
    seeds: tuple[int, ...] = FIRST_SEEDS  # the first one's samples are shown

    @property
    def title(self) -> str:
        """The diagnosis, as a person would say it."""
        return ". And: ".join(FAULTS[name].title for name in self.faults) or "Nothing is wrong"

    def without(self, fault: str) -> "Patient":
        """The patient after this one of two faults is repaired. ValueError: it is not there."""
        left = list(self.faults)
        left.remove(fault)
        (name,) = left
        return single(FAULTS[name])


def single(fault: Fault) -> Patient:
    """The patient with this fault alone."""
    return Patient(fault.name, (fault.name,), fault.sign)


def mild(name: str, size: str) -> Patient:
    """The patient with the mild form of a fault; `size` says it in a few words."""
    sign = f"{FAULTS[name].sign} A mild case: {size}."
    return Patient(of_strength(name, MILD), (name,), sign)


REPAIRED_IN_CODE = "score_on_pad", "whitening_first"  # the patient of the lesson's large exercise
PATIENTS = (
    *(single(fault) for fault in FAULTS.values()),
    *(Patient(PAIRS[two].name, two, PAIRS[two].sign) for two in PAIRS if two != REPAIRED_IN_CODE),
    mild("learning_rate", "three times the healthy rate"),
    mild("dropout_on", "dropout of 1 %"),
    Patient(
        "healthy",
        (),
        "Same settings as the grey runs, other seeds: healthy runs can lie this far apart.",
        tuple(HEALTHY_PATIENT_SEED + k for k in range(3)),
    ),
    Patient(
        "healthy_0.2",
        (),
        "β is 0.2, not 0.1: a nat of KL costs more, so there is less of it, and a little less score. The "
        "first ratio is 1, and KL starts at 0.",
    ),
)
