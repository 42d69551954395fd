"""Exercise of notebook 04: the policy gradient of a few words (Williams 1992)."""

import math
from collections.abc import Callable

import torch

from helpers.checks.judging.altered import other_inputs
from helpers.checks.judging.compare import alike, as_tensor
from helpers.checks.judging.exercise import Exercise, noise
from helpers.checks.judging.extra_term import with_a_term
from helpers.checks.judging.judge import backward, checker
from helpers.checks.judging.pieces import Slip, alone, two_at_once
from helpers.checks.judging.raised import UNFINISHED, Expected, also_on, explained
from helpers.checks.judging.report import CORRECT, Report
from helpers.checks.judging.runner import FINISHED, attempt
from helpers.checks.judging.second_look import one_of
from helpers.checks.judging.sizes import far_out
from helpers.checks.judging.transformed import result_changed
from helpers.checks.judging.where import case_by_case, without_effect


def log_softmax(logits):
    """Log-probs of a vector of logits."""
    return logits.log_softmax(-1)


def drawn_gain(
    value=log_softmax, reduce=torch.mean, sign=-1.0, scale=lambda a: a, combine=torch.mul,
    pick=lambda table, words: table[words],
):  # fmt: skip
    """Loss of drawn words: −mean(value(logits)[words]·advantages), or with another piece."""
    return lambda logits, words, advantages: (
        sign * reduce(combine(pick(value(logits), words), scale(advantages)))
    )


def mean_per_word(logits, words, advantages):
    """Averages each word's draws first, then the words that were drawn."""
    gains = log_softmax(logits)[words] * advantages
    return -torch.stack([gains[words == w].mean() for w in words.unique()]).mean()


def once_each(logits, words, advantages):
    """Counts a word that was drawn several times only the first time."""
    first = [i for i, w in enumerate(words.tolist()) if w not in words[:i].tolist()]
    return drawn_gain()(logits, words[first], advantages[first])


# fmt: off
SLIPS = [Slip(*entry) for entry in [
    ("minus sign missing", "The optimizer goes downhill: the loss is minus the mean.", {"sign": 1.0}),
    ("probabilities", "You weighed π(w). The words were drawn by π already; take log π(w).",
     {"value": lambda z: z.softmax(-1)}),
    ("raw logits", "Logits are not log-probs: apply log_softmax first.", {"value": lambda z: z}),
    ("sum instead of mean", "You summed over the words drawn; take the mean.", {"reduce": torch.sum}),
    ("Σ exp without its logarithm", "You subtracted Σ exp of the logits; subtract its logarithm, or use"
     " log_softmax.",
     {"value": lambda z: z - z.exp().sum()}),
    ("not averaged", "You return a number for each word drawn; return their mean.",
     {"reduce": lambda x: x}),
    ("weighed by π as well", "You multiplied by π(w): words drawn come with that weight already.",
     {"value": lambda z: z.softmax(-1) * log_softmax(z)}),
    ("advantages left out", "You left the advantages out: every word drawn would be pushed up, good or bad.",
     {"scale": torch.ones_like}),
    ("advantages centred", "Take the advantages as they are; you subtracted their mean.",
     {"scale": lambda a: a - a.mean()}),
    ("advantages whitened", "Take the advantages as they are; you divided them by their std, too.",
     {"scale": lambda a: (a - a.mean()) / a.std()}),
    ("advantages whitened", "Take the advantages as they are; you divided them by their std, too.",
     {"scale": lambda a: (a - a.mean()) / (a.std() + 1e-8)}),
    ("advantages whitened", "Take the advantages as they are; you divided them by their std, too.",
     {"scale": lambda a: (a - a.mean()) / (a.std(unbiased=False) + 1e-8)}),
    ("absolute advantage", "Keep the sign of the advantage: bad words must become less likely.",
     {"scale": torch.abs}),
    ("negative advantages dropped", "You set negative advantages to 0: a bad word that was drawn would not be"
     " pushed down.", {"scale": lambda a: a.clamp(min=0)}),
    ("the sign of the advantage alone", "You kept only the advantage's sign; its size counts too.",
     {"scale": torch.sign}),
    ("advantages squared", "You squared the advantages; multiply by each once.", {"scale": torch.square}),
    ("advantages clipped", "You clipped the advantages; take them as they are.",
     {"scale": lambda a: a.clamp(-1, 1)}),
    ("advantages softmaxed", "You made weights out of the advantages (softmax); take them as they are.",
     {"scale": lambda a: a.softmax(-1)}),
    ("only the largest logit subtracted", "log_softmax subtracts log Σ exp of the logits; you subtracted"
     " only the largest logit.", {"value": lambda z: z - z.max()}),
    ("mean of the logits subtracted", "log_softmax subtracts log Σ exp of the logits, not their mean.",
     {"value": lambda z: z - z.mean()}),
    ("base 2", "Your logarithm is to base 2; take the natural one.",
     {"value": lambda z: log_softmax(z) / math.log(2)}),
    ("base 10", "Your logarithm is to base 10; take the natural one.",
     {"value": lambda z: log_softmax(z) / math.log(10)}),
    ("log of a sigmoid", "Each word got a probability of its own (sigmoid); π is a softmax over the words.",
     {"value": torch.nn.functional.logsigmoid}),
    ("softmax twice", "You took a softmax of a softmax (or of log-probs' exp).",
     {"value": lambda z: z.softmax(-1).log_softmax(-1)}),
    ("1 − π", "That is log(1 − π), the chance of all other words.",
     {"value": lambda z: torch.log1p(-z.softmax(-1))}),
    ("sign of the logits", "Your policy is that of −logits: a sign inside the softmax.",
     {"value": lambda z: log_softmax(-z)}),
    ("added, not multiplied", "You added the advantage to log π(w); multiply.", {"combine": torch.add}),
    ("advantage subtracted", "You subtracted the advantage from log π(w); multiply.",
     {"combine": torch.sub}),
    ("divided by the advantage", "You divided by the advantage; multiply.", {"combine": torch.div}),
    ("divided by n − 1", "You divided the sum by n − 1; divide by the number of words drawn.",
     {"reduce": lambda x: x.sum() / (len(x) - 1)}),
    ("halved", "There is a factor ½ too many.", {"reduce": lambda x: x.mean() / 2}),
    ("median instead of mean", "You took the median; take the mean.", {"reduce": torch.median}),
    ("largest instead of mean", "You took the largest; take the mean.", {"reduce": torch.max}),
    ("smallest instead of mean", "You took the smallest; take the mean.", {"reduce": torch.min}),
    ("only the first word", "You took only the first word drawn; average over all.",
     {"reduce": lambda x: x[0]}),
    ("squared", "You squared the gains; average them as they are.",
     {"reduce": lambda x: x.square().mean()}),
    ("the first rows for the words", "You took the first log-probs of the table; take those of the words"
     " drawn, [words].", {"pick": lambda table, words: table.repeat(8)[: len(words)]}),
    ("the word before", "You took the log π of word w − 1; indices count from 0.",
     {"pick": lambda table, words: table[words - 1]}),
    ("the likeliest word", "You took the likeliest word's log π; take those of the words drawn.",
     {"pick": lambda table, words: table.max().expand(len(words))}),
]]
REINFORCE = Exercise(
    "reinforce_loss", "logits words advantages", drawn_gain(),
    "−mean of A·log π(w) over the words drawn (Williams 1992; notebook 04)",
    [
        (torch.tensor([1.0, 0.0, -1.0]), torch.tensor([0, 2]), torch.tensor([2.0, 1.0])),
        (noise(10, 5), torch.tensor([4, 0, 0, 2, 1, 4]), noise(11, 6)),
        (2 * noise(12, 4) + 1, torch.tensor([3]), torch.tensor([-1.5])),
    ],
    [
        *alone(drawn_gain, SLIPS),
        ("words ignored", "You averaged log π over all words; take the log π of the words drawn.",
         lambda z, w, a: -(log_softmax(z).mean() * a).mean()),
        ("means multiplied", "You multiplied two means; multiply each word's log π by its own A first.",
         lambda z, w, a: -log_softmax(z)[w].mean() * a.mean()),
        ("divided by the number of words there are", "You divided by the size of the vocabulary; divide"
         " by the number of words drawn.",
         lambda z, w, a: drawn_gain(reduce=torch.sum)(z, w, a) / len(z)),
        ("divided by Σ A", "You divided by the sum of the advantages; divide by how many words were"
         " drawn.", lambda z, w, a: drawn_gain(reduce=torch.sum)(z, w, a) / a.sum()),
        ("divided by Σ |A|", "You divided by the sum of the advantages' sizes; divide by how many words"
         " were drawn.", lambda z, w, a: drawn_gain(reduce=torch.sum)(z, w, a) / a.abs().sum()),
        ("divided by the number of different words", "You divided by how many different words were drawn;"
         " divide by the number of draws.",
         lambda z, w, a: drawn_gain(reduce=torch.sum)(z, w, a) / len(w.unique())),
        ("draws of one word averaged first", "You averaged each word's draws first, then the words; every"
         " draw should weigh the same.", mean_per_word),
        ("each word counted once", "A word that was drawn twice counts twice, each time with its own"
         " advantage; you counted it once.", once_each),
        ("softmax over the words drawn", "Your softmax is over the words drawn; it is over the whole"
         " vocabulary: log_softmax first, then [words].",
         lambda z, w, a: -(log_softmax(z[w]) * a).mean()),
    ],
    gradient=("logits",),
)
# fmt: on


def reaches_beyond(function: Callable) -> bool:
    """Whether an index that is out of bounds is one of the advantages: with more of them it is not."""
    logits, words, _ = REINFORCE.probes[0]
    return attempt(function, (logits, words, torch.ones(len(logits))), 1.0).state == FINISHED


PICKED = Expected(
    "out of bounds",
    "advantages indexed by the words",
    "You look up the advantages by the words of the vocabulary. There is one advantage for each word"
    " drawn, in their order: index the"
    " log-probs by the words, and the advantages not at all.",
    reaches_beyond,
)
VANISHED = (
    "log of a vanished or infinite number",
    "Wrong where a logit is 150: the softmax of the other words rounds to 0, and its logarithm is −inf (a"
    " clamp or an ε hides that, and is wrong); exp(150) overflows. log_softmax gives the log-prob itself.",
    (torch.tensor([0.0, 150.0, -60.0]), torch.tensor([0, 1, 2]), torch.tensor([1.0, 0.5, -2.0])),
)


GENTLE = torch.tensor([0.3, -0.2, 0.5])
FAR = far_out(
    "advantages are large", (GENTLE, torch.tensor([0, 2, 1]), torch.tensor([80.0, -60.0, 5.0]))
)
SINGLE = GENTLE, torch.tensor([1]), torch.tensor([1.5])
FORTY = ("wrong for forty draws", "Right for a few draws, wrong for forty of three words: a word is drawn"
         " many times, and each time counts.", (GENTLE, torch.arange(40) % 3, noise(9, 40)))  # fmt: skip


def entropy_of(logits, words, advantages):
    """−Σ π·log π."""
    return -(logits.softmax(-1) * log_softmax(logits)).sum()


def one_word(words: str, logits: list, word: int, advantage: float) -> tuple:
    """A case of one word drawn, for `case_by_case`."""
    return words, (torch.tensor(logits), torch.tensor([word]), torch.tensor([advantage]))


def by_gradient(check: Callable[..., Report]) -> Callable[..., Report]:
    """The same check, which also takes another number with the very gradient that the text asks for."""

    def kinder(function, *options, **named) -> Report:
        report = check(function, *options, **named)
        given = [*REINFORCE.probes, VANISHED[2], FAR[2], SINGLE, FORTY[2]]
        numbers = report.case and report.mistake not in UNFINISHED
        if not numbers or not all(same_gradient(function, one) for one in given):
            return report
        says = "The gradient is the one that is asked for, in all test cases. (The loss itself is another"
        says += " number than −mean(log π · A): it says less, and trains as well.)"
        return Report(report.exercise, CORRECT, says)

    kinder.__name__ = kinder.__qualname__ = check.__name__
    kinder.__doc__, kinder.exercise = check.__doc__, check.exercise
    return kinder


def same_gradient(function: Callable, given: tuple) -> bool:
    """Whether a scalar of the function has the reference's gradient with respect to the logits."""
    got, want = (
        attempt(backward(one, [0]), given, 1.0).value for one in (function, REINFORCE.reference)
    )
    alone = as_tensor(attempt(function, given, 1.0).value, torch.zeros(()))
    fine = got and got[0] is not None and alone is not None and alone.dim() == 0
    return bool(fine) and alike(got[0], want[0])


check_reinforce_loss = by_gradient(explained(
    checker(REINFORCE),
    (PICKED,),
    also_on(REINFORCE, VANISHED, FAR, FORTY),
    cause=one_of(
        REINFORCE,
        with_a_term({
            "the entropy": entropy_of,
            "the mean of log π over the words": lambda z, w, a: log_softmax(z).mean(),
            "the mean of log π(w)": lambda z, w, a: log_softmax(z)[w].mean(),
            "the logits' squares": lambda z, w, a: z.square().sum(),
            "the logits' mean square": lambda z, w, a: z.square().mean(),
        }),
        two_at_once(drawn_gain, SLIPS),
        other_inputs(skip=("words",), cut=("words", "advantages")),
        result_changed,
        without_effect,
        case_by_case(
            one_word("one word with A > 0 is drawn", [1.0, 0.0, -0.5], 2, 1.5),
            one_word("one word with A < 0 is drawn", [1.0, 0.0, -0.5], 2, -1.5),
            one_word("A = 0", [1.0, 0.0, -0.5], 0, 0.0),
            ("two words are drawn", (torch.tensor([1.0, 0.0]), torch.tensor([0, 1]),
                                     torch.tensor([1.0, -2.0]))),
            ("a word is drawn twice", (torch.tensor([1.0, 0.0]), torch.tensor([1, 1]),
                                       torch.tensor([1.0, -2.0]))),
        ),
    ),
))  # fmt: skip
