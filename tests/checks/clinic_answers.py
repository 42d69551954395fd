"""Answers to the exercises of lesson 09: edits of the repaired function, and rules, right and wrong.

Written as learners would, without looking at the checks.
"""

import math
import random

import torch

from helpers.experiments.diagnose import column, late

SOLUTION = """
def steps_5_and_6(scores, logprobs, ref_logprobs, values, counted, kl_coef, gamma, lam):
    rewards = torch.where(counted, -kl_coef * (logprobs - ref_logprobs), 0.0)
    last = counted.sum(dim=1) - 1
    rewards[torch.arange(len(scores)), last] += scores
    advantages = torch.zeros_like(rewards)
    running = following = torch.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * following - values[:, t]
        running = delta + gamma * lam * running
        advantages[:, t], following = running, values[:, t]
    returns = (advantages + values) * counted
    mean = (advantages * counted).sum() / counted.sum()
    variance = ((advantages - mean) ** 2 * counted).sum() / (counted.sum() - 1)
    advantages = (advantages - mean) / (variance + 1e-8).sqrt() * counted
    return rewards, advantages, returns
"""


def edited(*pairs: tuple[str, str]):
    """The solution with some of its lines written otherwise."""
    source = SOLUTION
    for old, new in pairs:
        assert old in source, old
        source = source.replace(old, new)
    names = {"torch": torch}
    exec(compile(source, "answer", "exec"), names)
    return names["steps_5_and_6"]


PLACE = "    rewards[torch.arange(len(scores)), last] += scores\n"
DELTA = "rewards[:, t] + gamma * following - values[:, t]"
RETURNS = "    returns = (advantages + values) * counted\n"
END = "    return rewards, advantages, returns"
TARGETS = "rewards + gamma * torch.cat([values[:, 1:], 0 * values[:, :1]], dim=1)"
WHITEN = "(advantages - mean) / (variance + 1e-8).sqrt() * counted"
PENALTY = "-kl_coef * (logprobs - ref_logprobs)"

# the mistake's name, or None where it may be any, and the edits
WRONG_REPAIRS = [
    ("the score stands on a pad", [(PLACE, "    rewards[:, -1] += scores\n")]),
    (
        "the score stands on a pad",
        [(PLACE, "    rewards[:, -1] += scores\n    rewards = rewards * counted\n")],
    ),
    ("the score twice", [(PLACE, PLACE + "    rewards[:, -1] += scores * counted[:, -1]\n")]),
    (
        "the score twice",
        [(PLACE, PLACE + "    rewards[:, -1] += scores\n    rewards = rewards * counted\n")],
    ),
    ("the score one token early", [("counted.sum(dim=1) - 1", "counted.sum(dim=1) - 2")]),
    (
        "the score stands on a pad",
        [("counted.sum(dim=1) - 1", "counted.sum(dim=1).clamp(max=counted.shape[1] - 1)")],
    ),
    ("the score on the first token", [("counted.sum(dim=1) - 1", "0 * counted.sum(dim=1)")]),
    ("the score on every token", [(PLACE, "    rewards += scores[:, None] * counted\n")]),
    ("the last penalty is lost", [("last] += scores", "last] = scores")]),
    ("no score", [(PLACE, "")]),
    ("KL sign", [(PENALTY, "kl_coef * (logprobs - ref_logprobs)")]),
    ("KL sign", [(PENALTY, "-kl_coef * (ref_logprobs - logprobs)")]),
    ("β is missing", [(PENALTY, "ref_logprobs - logprobs")]),
    ("padding is charged", [(f"torch.where(counted, {PENALTY}, 0.0)", PENALTY)]),
    ("absolute KL", [(PENALTY, "-kl_coef * (logprobs - ref_logprobs).abs()")]),
    ("no γ in δ", [(DELTA, "rewards[:, t] + following - values[:, t]")]),
    ("no γ in the sum", [("gamma * lam * running", "lam * running")]),
    ("no λ", [("gamma * lam * running", "gamma * running")]),
    ("V with a plus", [(DELTA, "rewards[:, t] + gamma * following + values[:, t]")]),
    ("V_t for V_{t+1}", [("gamma * following", "gamma * values[:, t]")]),
    ("no next value", [(DELTA, "rewards[:, t] - values[:, t]")]),
    ("TD errors only", [("delta + gamma * lam * running", "delta")]),
    (None, [("reversed(range(rewards.shape[1]))", "range(rewards.shape[1])")]),
    ("returns of whitened advantages", [(RETURNS, ""), (END, RETURNS + END)]),
    ("one-step targets", [(RETURNS, f"    returns = ({TARGETS}) * counted\n")]),
    ("rewards + values for returns", [("(advantages + values)", "(rewards + values)")]),
    ("returns without the values", [("(advantages + values)", "advantages")]),
    (None, [("(advantages + values) * counted", "(advantages - values) * counted")]),
    (
        "not whitened",
        [("    advantages = (advantages - mean)", "    unused = (advantages - mean)")],
    ),
    ("centred only", [(WHITEN, "(advantages - mean) * counted")]),
    ("divided by the variance", [(".sqrt()", "")]),
    ("the mean kept", [(WHITEN, "advantages / (variance + 1e-8).sqrt() * counted")]),
    (
        "whitened with the padding",
        [(WHITEN, "(advantages - advantages.mean()) / advantages.std() * counted")],
    ),
    ("wrong type", [(END, "    return rewards, advantages")]),
    ("wrong type", [(END, "    (rewards, advantages, returns)")]),
    ("wrong shape", [(END, "    return rewards[:, 1:], advantages, returns")]),
    ("exception", [("gamma * following", "gamma * folowing")]),
    (
        "inputs changed",
        [("    advantages = torch.zeros", "    values *= 0.5\n    advantages = torch.zeros")],
    ),
    (None, [(END, "    return rewards, returns, advantages")]),
    ("NaN or infinite", [("+ 1e-8).sqrt()", "- variance).sqrt()")]),
]
BACKWARDS = "for t in reversed(range(rewards.shape[1])):"
RIGHT_REPAIRS = [
    [],
    [("reversed(range(rewards.shape[1]))", "range(rewards.shape[1] - 1, -1, -1)")],
    [(PLACE, "    at = torch.arange(counted.shape[1]) == last[:, None]\n"
             "    rewards = rewards + at * scores[:, None]\n")],
    [("/ (counted.sum() - 1)", "/ counted.sum()")],
    [(RETURNS, ""), ("    mean =", "    raw = advantages\n    mean ="),
     (END, "    returns = torch.where(counted, raw + values, 0.0)\n" + END)],
    [(WHITEN, "torch.where(counted, (advantages - advantages[counted].mean())"
              " / advantages[counted].std(), 0.0)")],
    [(PENALTY, "kl_coef * (ref_logprobs - logprobs)")],
    [(END, "    return [rewards, advantages, returns]")],
    [("running = delta", "running = counted[:, t] * delta")],
]  # fmt: skip


def ratio_later(history):
    errors = column(history, "first_ratio_error")
    return errors[0] < 1e-3 and max(errors) > 1e-3


def any_ratio(history):
    return max(record["first_ratio_error"] for record in history) > 1e-3


def negative_kl(history):
    return min(column(history, "kl")) < -0.1


def nothing_ends(history):
    last = history[-1]
    return bool(last["ended"] < 0.1)


def as_tensor(history):
    return (torch.tensor(column(history, "score")).abs() > 10).any()


def two_signs(history):
    if column(history, "score")[0] > 5:
        return True
    return late(history, "ended") == 0


def still(history):
    return abs(history[-1]["kl"]) < 1e-3


RIGHT_RULES = [ratio_later, any_ratio, negative_kl, nothing_ends, as_tensor, two_signs, still]


def by_gold(history):
    return late(history, "gold") < 0


def by_gold_of_a_record(history):
    return history[-1]["gold"] < 0


def a_number(history):
    return max(column(history, "first_ratio_error"))


def no_return(history):
    late(history, "kl") > 10  # noqa: B015 (planted: the return is missing)


def half_a_return(history):
    if column(history, "kl")[-1] > 10:
        return True


def half_a_stub(history):
    if column(history, "kl")[-1] > 10:
        return True
    return NotImplemented


def changes_it(history):
    history.pop()
    return history[-1]["kl"] > 10


def too_tight(history):
    return late(history, "kl") > 2


def misspelt(history):
    return history[-1]["klx"] > 10


def out_of_range(history):
    return history[30]["kl"] > 10


def turned_round(history):
    return all(record["first_ratio_error"] < 1e-3 for record in history) and _inside(history)


def _inside(history):
    late_kl = late(history, "kl")
    return 0.5 < late_kl < 7 and late(history, "score") > 0.8


def a_string(history):
    return "ill" if history[-1]["kl"] > 10 else "well"


COIN = random.Random(0)


def by_chance(history):
    return math.isnan(history[-1]["kl"]) or COIN.random() < 0.5


WRONG_RULES = [
    ("the gold score", by_gold),
    ("the gold score", by_gold_of_a_record),
    ("wrong type", a_number),
    ("wrong type", no_return),
    ("wrong type", half_a_return),
    ("wrong type", a_string),
    ("half a stub", half_a_stub),
    ("inputs changed", changes_it),
    ("always an alarm", lambda history: True),
    ("never an alarm", lambda history: False),
    ("never an alarm", lambda history: late(history, "kl") > 1e9),
    ("false alarms", too_tight),
    ("exception", misspelt),
    ("exception", out_of_range),
    (None, turned_round),
    ("false alarms", by_chance),
    ("not a function", True),
]
