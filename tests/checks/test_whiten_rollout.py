"""The large exercise of lesson 03: wrong answers are caught and named, right ones pass however written.

Each answer is the lesson's solution with one piece of text replaced. WRONG: (what is wrong, what the
report may call it, text, wrong text). RIGHT: (what is unusual, text, another text).
"""

import pytest
import torch

from helpers.checks import check_whiten_rollout
from helpers.checks.judging.report import CORRECT, MISTAKE, NOT_ATTEMPTED
from helpers.checks.whitening.whiten_mistakes import MISTAKES
from helpers.checks.whitening.whiten_slips import own
from tests.notebooks.exercises import NOTEBOOKS, read, solutions

(LESSON,) = (path for path in NOTEBOOKS if path.stem == "03_whitening")
SOLUTION = solutions(read(LESSON))["whiten_rollout"]
COUNTED = "counted = advantages[mask]"
RETURNS = "returns = torch.where(mask, advantages + values, 0.0)"
WHITENED = "whitened = torch.where(mask, scaled, 0.0)"
EXPLAINED = "explained = 1 - var / variance(returns[mask]).clamp(min=1e-12)"
UNBIASED = "max(len(x) - 1, 1)"

# fmt: off
WRONG = [
    ("clipped at 5 deviations", "outlier", WHITENED,
     "whitened = torch.where(mask, scaled.clamp(-5, 5), 0.0)"),
    ("explained at least −0.1", "bad critic", EXPLAINED, EXPLAINED
     + "\n    explained = explained.clamp(min=-0.1)"),
    ("returns after whitening", "returns from whitened", "    return whitened, returns",
     "    returns = torch.where(mask, whitened + values, 0.0)\n    return whitened, returns"),
    ("values forgotten", "left out", "advantages + values", "advantages"),
    ("values subtracted", "subtracted", "advantages + values", "advantages - values"),
    ("returns not masked", "masked positions", RETURNS, "returns = advantages + values"),
    ("returns masked by a product", "NaN", RETURNS, "returns = (advantages + values) * mask"),
    ("whitened not masked", "masked positions", WHITENED, "whitened = scaled"),
    ("whitened masked by a product", "NaN", WHITENED, "whitened = scaled * mask"),
    ("padding counted", "over padding", COUNTED, "counted = advantages.flatten()"),
    ("padding as zeros", "as zeros", COUNTED,
     "counted = torch.where(mask, advantages, 0.0).flatten()"),
    ("mask upside down", "upside down", COUNTED, "counted = advantages[~mask]"),
    ("biased", "biased", UNBIASED, "len(x)"),
    ("0/0 for one token", "one token", UNBIASED, "(len(x) - 1)"),
    ("mean squares", "not subtracted in the variance", "(x - x.mean()).square()", "x.square()"),
    ("divided by the variance", "by the variance", "(var + 1e-8).sqrt()", "(var + 1e-8)"),
    ("mean kept", "mean kept", "centred / (var", "advantages / (var"),
    ("floor ignored", "floor ignored", "centred if std < floor else ", ""),
    ("floor against the variance", "against the variance", "std < floor", "var < floor"),
    ("floor turned round", "turned round", "std < floor", "std > floor"),
    ("always centred", "only centred", "std < floor", "True"),
    ("zeros below the floor", "all is 0", "scaled = centred if", "scaled = 0 * centred if"),
    ("untouched below the floor", "nothing is done", "scaled = centred if", "scaled = advantages if"),
    ("clamped to the floor", "divided by the floor",
     "centred if std < floor else centred / (var + 1e-8).sqrt()",
     "centred / std.clamp(min=floor)"),
    ("share over padding", "share over padding", "(whitened[mask] > 0)", "(whitened > 0)"),
    ("share of the raw ones", "raw advantages", "(whitened[mask] > 0)", "(advantages[mask] > 0)"),
    ("share of the others", "pushed down", "(whitened[mask] > 0)", "(whitened[mask] < 0)"),
    ("a number, not a share", "not a share", ".float().mean()", ".float().sum()"),
    ("the variance as a gauge", "variance for the standard", "[mean, std,", "[mean, var,"),
    ("gauges of what is whitened", "what is whitened", "torch.stack([mean, std,",
     "torch.stack([whitened[mask].mean(), whitened[mask].std(),"),
    ("unexplained share", "1 − forgotten", "1 - var / variance", "var / variance"),
    ("upside down", "upside down", EXPLAINED, "explained = 1 - variance(returns[mask]) / var"),
    ("of the values", "Var(values)", "variance(returns[mask])", "variance(values[mask])"),
    ("squares", "squared error", "explained = 1 - var /", "explained = 1 - counted.square().mean() /"),
    ("order of the gauges", "order of the gauges", "[mean, std, pushed_up, explained]",
     "[mean, std, explained, pushed_up]"),
    ("outputs exchanged", "whitened and returns exchanged", "return whitened, returns,",
     "return returns, whitened,"),
    ("returns whitened", "returns whitened", RETURNS, "counted = (advantages + values)[mask]\n"
     "    returns = (advantages + values - counted.mean()) / (variance(counted) + 1e-8).sqrt()\n"
     "    returns = torch.where(mask, returns, 0.0)"),
    ("values whitened", "values whitened", RETURNS, "values = (values - values[mask].mean()) / ("
     "variance(values[mask]) + 1e-8).sqrt()\n    " + RETURNS),
    ("advantages as the target", "of the advantages", EXPLAINED,
     "explained = 1 - variance(counted - values[mask]) / var.clamp(min=1e-12)"),
    ("divided by the advantages' variance", "Var(advantages)", "variance(returns[mask])",
     "variance(counted)"),
    ("against whitened returns", "whitened returns", EXPLAINED,
     "goal = (returns[mask] - returns[mask].mean()) / (variance(returns[mask]) + 1e-8).sqrt()\n"
     "    explained = 1 - variance(goal - values[mask]) / variance(goal).clamp(min=1e-12)"),
    ("a list of gauges", "wrong type", "torch.stack([mean, std, pushed_up, explained])",
     "[mean.item(), std.item(), pushed_up.item(), explained.item()]"),
    ("two results", "wrong type", "return whitened, returns,", "return whitened,"),
]

RIGHT = [
    ("from plain numbers", "torch.stack([mean, std, pushed_up, explained])",
     "torch.tensor([mean.item(), std.item(), pushed_up.item(), explained.item()])"),
    ("double", COUNTED, "counted = advantages[mask].double()"),
    ("torch's variance", "mean, var = counted.mean(), variance(counted)",
     "mean = counted.mean()\n    var = counted.var() if len(counted) > 1 else counted.new_zeros(())"),
    ("masked fill", WHITENED, "whitened = scaled.masked_fill(~mask, 0.0)"),
    ("filled in", RETURNS,
     "returns = torch.zeros_like(advantages)\n    returns[mask] = (advantages + values)[mask]"),
    ("epsilon outside", "(var + 1e-8).sqrt()", "(std + 1e-8)"),
    ("an if", "scaled = centred if std < floor else centred / (var + 1e-8).sqrt()",
     "scaled = centred\n    if not std < floor:\n        scaled = centred / (var + 1e-8).sqrt()"),
    ("residual written out", EXPLAINED,
     "explained = 1 - variance((returns - values)[mask]) / variance(returns[mask]).clamp(min=1e-12)"),
]
# fmt: on


def answer(text: str, instead: str):
    """The solution with one piece replaced."""
    assert text in SOLUTION, text
    names = {"torch": torch}
    exec(compile(SOLUTION.replace(text, instead), "answer", "exec"), names)
    return names["whiten_rollout"]


def test_wrong_answers_are_caught_and_named():
    found = [(row, check_whiten_rollout(answer(*row[2:]))) for row in WRONG]
    assert [row[0] for row, report in found if report.status != MISTAKE] == []
    misnamed = [
        (row[:2], report.mistake)
        for row, report in found
        if row[1].lower() not in (report.mistake or "").lower()
    ]
    assert misnamed == []


@pytest.mark.parametrize(("what", "text", "instead"), RIGHT, ids=[row[0] for row in RIGHT])
def test_right_answers_pass_however_written(what, text, instead):
    report = check_whiten_rollout(answer(text, instead))
    assert report.status == CORRECT, report


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_each_known_mistake_is_named(mistake):
    report = check_whiten_rollout(mistake.wrong)
    assert (report.status, report.mistake) == (MISTAKE, mistake.name)


def test_the_course_s_own_passes_and_a_stub_is_told_so():
    assert check_whiten_rollout(own).status == CORRECT
    assert check_whiten_rollout(lambda *given: NotImplemented).status == NOT_ATTEMPTED
    assert check_whiten_rollout(None).status == NOT_ATTEMPTED


def test_inputs_changed_in_place_are_told():
    def spoils(advantages, values, mask, floor):
        advantages += values
        return own(advantages, values, mask, floor)

    assert check_whiten_rollout(spoils).mistake == "inputs changed"


def test_a_wrong_gauge_is_shown_without_a_row():
    def wrong(*given):
        whitened, returns, gauges = own(*given)
        return whitened, returns, gauges + torch.tensor([0.0, 0.123, 0.0, 0.0])

    message = check_whiten_rollout(wrong).message
    assert "Standard deviation" in message and "row" not in message, message
