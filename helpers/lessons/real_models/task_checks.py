"""Exercises of lesson 12 on a checked task: a few-shot prompt, its checker, the optimum of a 0/1 reward."""

import torch
from torch import Tensor

from helpers.kit.exercise import Seen, expect, floats
from helpers.kit.judge import exercise

SHOTS = {"red tin": "tin red", "old hat": "hat old"}

check_few_shot_prompt = exercise(
    """\
def few_shot_prompt(shots, question):
    lines = [f"{asked} -> {answer}\\n" for asked, answer in shots.items()]
    return "".join(lines) + f"{question} ->"
""",
    "a line `question -> answer` for each shot, then `question ->`, with nothing after the arrow",
    [({"red tin": "tin red"}, "big dog"), (SHOTS, "big dog")],
    """\
a blank at the end: Your prompt ends with a blank. The model's words begin with one (" dog" is one token), so
 after a blank it must go on with a token that it seldom read there.
- {question} ->"
+ {question} -> "
no end of line: Each shot ends its line, and so does the question's answer: that is where the model stops.
- {answer}\\n"
+ {answer} "
the question first: The question stands last, for the model goes on where the prompt ends.
- "".join(lines) + f"{question} ->"
+ f"{question} ->" + "".join(lines)
no arrow after the question: The question has the form of the shots, up to its arrow.
- f"{question} ->"
+ question
a line's end after the arrow: Your prompt ends the question's line, so that its answer would be empty.
- {question} ->"
+ {question} ->\\n"
""",
    observe=lambda function, *given: {"prompt": function(*given)},
    advice="Compare letter by letter: blanks, arrows, ends of lines.",
)


def rewards_seen(function, completions: list[str], solution: list[str]) -> Seen:
    """The rewards as a tensor, whether they came as a list or as one, of numbers or of booleans."""
    given = function(completions, solution)
    if isinstance(given, (list, tuple)) and all(isinstance(x, (int, float)) for x in given):
        given = torch.tensor(given, dtype=torch.float)
    return {"rewards": given.float() if isinstance(given, Tensor) else given}


def one_text(function, completions: list[str], solution: list[str]) -> None:
    """Wrong: the first text that gets another reward than it should."""
    mine, right = (
        rewards_seen(one, completions, solution)["rewards"].tolist()
        for one in (function, check_answer_reward.exercise.right)
    )
    for text, asked, yours, wanted in zip(completions, solution, mine, right, strict=True):
        says = (
            f"The text {text!r} gets {yours:g} where {asked!r} is asked; it should get {wanted:g}."
        )
        expect(yours == wanted, "right text refused" if wanted else "wrong text rewarded", says)


ENDED = [" b a\n", " a b\n", " ba\n", " b a b\n", " b a.\n", " B a\n", "\n", "b a \n"]
SAID = [*ENDED, " b a", " b\n a", " b a\n c"]

check_answer_reward = exercise(
    """\
def answer_reward(completions, solution):
    pairs = zip(completions, solution)
    return [float(text.endswith("\\n") and text.strip() == right) for text, right in pairs]
""",
    "1.0 where the text ends its line and, without blanks around it, is the solution; else 0.0",
    [
        ([" dog big\n", " big dog\n", " dog big"], ["dog big"] * 3),
        (SAID, ["b a"] * len(SAID)),
        ([" net seat\n", " net seat net\n", " net seat\n"], ["seat net", "seat net", "net seat"]),
    ],
    """\
somewhere in the text: Your checker asks whether the answer is somewhere in the text: " a b a" holds "b a",
 too. A policy trained on it may learn to say both orders, and need not end.
- text.endswith("\\n") and text.strip() == right
+ right in text
an answer that did not end: A text that was cut off gets a reward: then nothing teaches the policy to stop.
- text.endswith("\\n") and text.strip()
+ text.strip()
the text as it is: No text is ever right. It begins with a blank and holds the line's end: compare without
 them, but look for the line's end before you take it off.
- text.strip() == right
+ text == right
the beginning alone: The answer may go on as it likes after the right words; compare all of it.
- text.strip() == right
+ text.strip().startswith(right)
upper case allowed: Capital letters are another answer here.
- text.strip() == right
+ text.strip().lower() == right
its words in any order: The order is what is asked for.
- text.strip() == right
+ sorted(text.split()) == sorted(right.split())
the first line alone: Your checker reads the first line alone; the text goes on after it, so it did not end
 there.
- text.endswith("\\n") and text.strip() == right
+ "\\n" in text and text.partition("\\n")[0].strip() == right
""",
    results=("rewards",),
    observe=rewards_seen,
    cause=one_text,
)

FEW_PROBS = floats(0.5, 0.02, 0.9), 0.5
RARE = floats(1e-6, 0.001, 0.2, 0.03, 0.6, 0.999), 0.1

check_best_probs = exercise(
    """\
def best_probs(probs, kl_coef):
    return torch.sigmoid(torch.logit(probs) + 1 / kl_coef)
""",
    "odds = odds₀·e^(1/β), odds = p/(1 − p), prompt by prompt (Rafailov et al. 2023, eq. 4, on two classes)",
    [FEW_PROBS, RARE],
    """\
not normalised: p·e^(1/β) may be above 1: the wrong answers keep their weight 1 − p, and both are divided by
 their sum.
- torch.sigmoid(torch.logit(probs) + 1 / kl_coef)
+ probs * torch.tensor(1 / kl_coef).exp()
odds: These are odds; the probability is odds/(1 + odds).
- torch.sigmoid(torch.logit(probs) + 1 / kl_coef)
+ (torch.logit(probs) + 1 / kl_coef).exp()
the odds' logarithm: torch.sigmoid is missing: these are log-odds.
- torch.sigmoid(torch.logit(probs) + 1 / kl_coef)
+ torch.logit(probs) + 1 / kl_coef
β for 1/β: The reward is divided by β: a small β moves the policy far.
- 1 / kl_coef
+ kl_coef
the mean's odds: You took the mean over prompts first. Each prompt has an optimum of its own; the mean comes
 last.
- torch.logit(probs)
+ torch.logit(probs.mean().expand(len(probs)))
cut at 1: The optimum never says a right answer with certainty: it divides by what all answers weigh.
- torch.sigmoid(torch.logit(probs) + 1 / kl_coef)
+ (probs * torch.tensor(1 / kl_coef).exp()).clamp(max=1)
""",
    further=[
        ("β is small: e^(1/β) is infinite in float32; add 1/β to the log-odds", (RARE[0], 0.01)),
        ("there is one prompt", (floats(0.25), 0.25)),
    ],
)
