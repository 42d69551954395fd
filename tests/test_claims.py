"""Figures in the lessons' prose are those of their runs: shown by a cell near them, or computed here.

A figure is a number with a decimal point, a per cent sign, or three digits. It is held if a cell at most
NEAR cells away shows it, rounded alike, as text or in its code. All others are in CLAIMS: what gives them.
"""

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import nbformat
import pytest
import safetensors

from helpers.config import RLHFConfig
from helpers.data import DATA, load_pairs, load_rows
from helpers.lessons.debugging.cases import VARIANTS
from helpers.lessons.overoptimization.study import RECIPES
from helpers.lessons.without_a_reward_model import study as direct
from helpers.studies import one_token
from helpers.studies.beta_sweep import load_sweep
from helpers.studies.faults import sample_cooler
from helpers.tools.files import ROOT

LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
NEAR = 8  # cells before and after

NUMBER = r"[−-]?\d+(?:,\d{3})*(?:\.\d+)?"
FIGURE = re.compile(rf"(?<![\w.,])({NUMBER})(\s?%)?(?!\w|[.,]\d)")
IN_TEXT = re.compile(rf"(?<![\w.])({NUMBER})")
IN_CODE = re.compile(r"(?<![\w.])\d+(?:_\d{3})*(?:\.\d+)?(?:e-?\d+)?")
NAMES = r"\b(?:19|20)\d\d\b(?!,\d)|\b\d{4}\.\d{5}\b|up\s+to\s+(?:version\s+)?1\.12"
LEFT_OUT = (  # solutions, code, formulas, links, tags, headings, names of versions and papers, times
    r"(?s)<details>.*?</details>", r"(?s)```.*?```", r"`[^`]*`", r"(?s)\$\$.*?\$\$", r"\$[^$]*\$",
    r"(?<=\])\([^)]*\)", r"<[^>]*>", r"(?m)^#.*$", NAMES, r"\d+ minutes to read",
)  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A number in prose: where it stands, as it is written, and the words around it."""

    lesson: str
    cell: int
    written: str
    percent: bool
    around: str

    @property
    def value(self) -> float:
        return as_number(self.written)

    @property
    def unit(self) -> float:
        """One of its last digit."""
        return 10.0 ** -len(self.written.partition(".")[2])

    def is_said_by(self, numbers: list[float]) -> bool:
        """Whether one of the numbers, rounded as the figure is, is the figure (signs are not read)."""
        scaled = numbers + [100 * x for x in numbers] if self.percent else numbers
        return any(abs(abs(x) - abs(self.value)) <= self.unit / 2 + 1e-9 for x in scaled)


def as_number(written: str) -> float:
    return float(written.replace("−", "-").replace(",", "").replace("_", ""))


def is_figure(written: str, percent: bool) -> bool:
    return "." in written or percent or sum(letter.isdigit() for letter in written) >= 3


def prose(source: str) -> str:
    """Markdown without what is no prose."""
    for pattern in LEFT_OUT:
        source = re.sub(pattern, "", source)
    return source


@cache
def cells(lesson: str) -> list:
    return nbformat.read(ROOT / "notebooks" / f"{lesson}.ipynb", as_version=4).cells


def figures(lesson: str) -> list[Figure]:
    found = []
    for index, cell in enumerate(cells(lesson)):
        text = prose(cell.source) if cell.cell_type == "markdown" else ""
        for match in FIGURE.finditer(text):
            around = " ".join(text[max(0, match.start() - 60) : match.end() + 40].split())
            if is_figure(match[1], bool(match[2])):
                found.append(Figure(lesson, index, match[1], bool(match[2]), around))
    return found


@cache
def shown(lesson: str, index: int) -> list[float]:
    """Numbers in a code cell and in the text of its outputs."""
    cell = cells(lesson)[index]
    if cell.cell_type != "code":
        return []
    texts = []
    for output in cell.outputs:
        data = output.get("data", {})
        html = re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", data.get("text/html", ""))
        texts += [output.get("text", ""), data.get("text/plain", ""), html]
    numbers = IN_TEXT.findall(" ".join(texts)) + IN_CODE.findall(cell.source)
    return [as_number(number) for number in numbers]


def beside(figure: Figure) -> list[float]:
    """Numbers in the cells near a figure."""
    first, last = max(0, figure.cell - NEAR), figure.cell + NEAR + 1
    near = range(first, min(last, len(cells(figure.lesson))))
    return [number for index in near for number in shown(figure.lesson, index)]


# --- figures that no cell near them shows: lesson, words around, what gives them --------------------


def quoted(source: str) -> Callable[[Figure], bool]:
    """A figure of somebody else's, with its source."""
    return lambda figure: bool(source)


def equals(compute: Callable[[], float]) -> Callable[[Figure], bool]:
    """A figure that this computes."""
    return one_of(lambda: [compute()])


def one_of(compute: Callable[[], list[float]]) -> Callable[[Figure], bool]:
    """A figure that is one of these."""
    return lambda figure: figure.is_said_by(compute())


def below(compute: Callable[[], float]) -> Callable[[Figure], bool]:
    """A figure that this stays under, by less than a fifth of it."""
    return lambda figure: 0.8 * figure.value <= compute() < figure.value


def worked_rewards() -> list[float]:
    """Lesson 02's table: log-probs, differences, −β·difference, rewards."""
    logprobs, ref_logprobs = [-1.0, -0.5, -2.0], [-1.5, -1.5, -0.5]
    pairs = list(zip(logprobs, ref_logprobs, strict=True))
    penalties = [-0.1 * (new - ref) for new, ref in pairs]
    kept = [*logprobs, *ref_logprobs, *(new - ref for new, ref in pairs), *penalties]
    return [*kept, penalties[-1] + 2]


def lines_of_one_page() -> int:
    return len((ROOT / "helpers/one_page.py").read_text("utf-8").splitlines())


def parameters_of_the_encoder() -> int:
    """To ten thousand."""
    weights = safetensors.safe_open(DATA / "reward/model.safetensors", "pt")
    return round(sum(math.prod(weights.get_slice(key).get_shape()) for key in weights.keys()), -4)


def planted(variant: str, setting: str) -> float:
    """How strong a milder or grosser fault of the clinic is."""
    (wrong,) = VARIANTS[variant].wrong.values()
    return wrong.keywords[setting]


def temperatures() -> list[float]:
    """Of the clear, the mild and the gross fault."""
    clear = inspect.signature(sample_cooler).parameters["temperature"].default
    return [clear, *(planted(f"temperature_{size}", "temperature") for size in ("mild", "gross"))]


def mixture() -> list[int]:
    """Responses to a prompt of the reference and of the trained policy, from which J* is estimated."""
    tensors = load_sweep().reference
    return [tensors[name].shape[1] for name in ("scores", "proposal_scores")]


def measured_methods() -> list[float]:
    """Efficiencies of last policies, of three methods, in the table of benchmarks.methods."""
    lines = (ROOT / "benchmarks/README.md").read_text("utf-8").splitlines()
    named = ("| PPO |", "| DPO |", "| online DPO |")
    return [float(line.split("|")[6]) for line in lines if line.startswith(named)]


CONFIG = RLHFConfig()
GIVEN = quoted("an exercise's own example")
TRAINED = equals(lambda: len(load_pairs("data/pairs_train.jsonl")))
CLAIMS: dict[tuple[str, str], Callable[[Figure], bool]] = {
    ("00", "trained on 20,000 comparisons"): TRAINED,
    ("00", "e ≈ 2.7"): equals(lambda: math.e),
    ("00", "further back gets 0.95"): equals(lambda: CONFIG.gamma * CONFIG.lam),
    ("00", "and λ = 0.95"): equals(lambda: CONFIG.lam),
    ("00", "in under 150 lines"): below(lines_of_one_page),
    ("02", "log π"): one_of(worked_rewards),
    ("02", "β · difference"): one_of(worked_rewards),
    ("02", "difference, in nats"): one_of(worked_rewards),
    ("02", "**reward**"): one_of(worked_rewards),
    ("03", "With λ = 0.95 earlier tokens"): equals(lambda: CONFIG.lam),
    ("04", "at each of 400 gradient steps"): GIVEN,
    ("05", "A score of 100 must not overflow"): GIVEN,
    ("05", "a difference of −120"): GIVEN,
    ("05", "a real encoder of 460,000"): equals(parameters_of_the_encoder),
    ("05", '"69 % of people'): equals(lambda: 100 / (1 + math.exp(-0.8))),
    ("05", "same 500 pairs, A and B"): GIVEN,
    ("07", "perhaps 250 short texts"): quoted("an assumption: about 15 seconds a text"),
    ("07", "256 samples each"): equals(lambda: 256),
    ("07", "128 prompts,"): equals(lambda: len(load_rows("prompts.jsonl", ("prompt",)))),
    ("07", "512 responses an iteration"): equals(lambda: one_token.SETTINGS["batch_size"]),
    ("07", "from 2,000 responses"): equals(lambda: mixture()[0]),
    ("07", "and 500 of the policy"): equals(lambda: mixture()[1]),
    ("07", "fresh responses a run"): equals(lambda: load_sweep().run(0.1, 0).final["responses"]),
    ("08", "12,000"): equals(lambda: RECIPES["pairs_12000"]["pairs"]),
    ("09", "dropout 1, 10, 30 %"): equals(lambda: 100 * planted("dropout_on_gross", "share")),
    ("09", "a temperature of 0.95, 0.7, 0.4"): one_of(temperatures),
    ("11", "300 pairs"): equals(lambda: direct.FEW),
    ("11", "fitted to 20,000"): TRAINED,
    ("11", "0.69 for offline"): one_of(measured_methods),
    ("11", "0.93 for online"): one_of(measured_methods),
    ("11", "0.96 for PPO"): one_of(measured_methods),
    ("12", "model of 135 million"): quoted("the name SmolLM2-135M"),
}


def claim(figure: Figure) -> Callable[[Figure], bool] | None:
    for (lesson, words), holds in CLAIMS.items():
        meant = figure.written in words or not re.search(r"\d", words)
        if meant and figure.lesson.startswith(lesson) and words in figure.around:
            return holds
    return None


# --- tests ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_figure_in_the_prose_is_held(lesson):
    lost = []
    for figure in figures(lesson):
        holds = claim(figure)
        held = figure.is_said_by(beside(figure)) if holds is None else holds(figure)
        if not held:
            lost.append(f"cell {figure.cell}, {figure.written}: … {figure.around} …")
    assert not lost, "\n".join(lost)


@pytest.mark.parametrize(("lesson", "words"), CLAIMS, ids=[" ".join(key) for key in CLAIMS])
def test_every_claim_is_still_made(lesson, words):
    stem = next(stem for stem in LESSONS if stem.startswith(lesson))
    assert any(words in figure.around for figure in figures(stem))
