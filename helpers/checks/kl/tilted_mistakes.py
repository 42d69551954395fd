"""π* and J* of notebook 07, and rarer wrong ways to them: normalisers, exponents, means."""

import math

import torch


def best(lp, r, b):
    """log π*: [P, N]."""
    return (lp + r / b).log_softmax(dim=1)


def value(lp, r, b):
    """J* of each prompt: [P]."""
    return b * (lp + r / b).logsumexp(dim=1)


def policy_mistake(name: str, says: str, wrong) -> tuple:
    return name, says, lambda lp, r, b, kl, t, n, h: wrong(lp, r, b)


# fmt: off
def policies() -> list[tuple]:
    """Rarer wrong ways to π*."""

    def normalised_by(pick):
        """Another normaliser: `pick` of the log Z of the prompts [P, 1]."""
        return lambda lp, r, b: (lp + r / b) - pick((lp + r / b).logsumexp(1, keepdim=True))

    def with_scores(change):
        """π* of changed scores."""
        return lambda lp, r, b: best(lp, change(r), b)

    found = [
        ("one normaliser for all prompts", "Your normaliser is the same for all prompts; each has its own.",
         [normalised_by(lambda z: z[:1]), normalised_by(lambda z: z[-1:]),
          normalised_by(lambda z: z.mean()), normalised_by(lambda z: z.max()),
          normalised_by(lambda z: z.sum())]),
        ("normaliser added", "log Z is subtracted; you added it.", [normalised_by(lambda z: -z)]),
        ("normaliser without its logarithm", "You subtracted Z; subtract log Z.",
         [normalised_by(lambda z: z.exp())]),
        ("normalised by the largest", "You subtracted the largest exponent, not the log of the sum.",
         [lambda lp, r, b: (lp + r / b) - (lp + r / b).amax(1, keepdim=True)]),
        ("normalised by the mean", "You subtracted the mean exponent; subtract the logsumexp.",
         [lambda lp, r, b: (lp + r / b) - (lp + r / b).mean(1, keepdim=True)]),
        ("normalised by the log of a mean", "You subtracted the log of the mean of exp; subtract that of"
         " the sum.",
         [lambda lp, r, b: (lp + r / b) - ((lp + r / b).logsumexp(1, keepdim=True)
                                           - math.log(lp.shape[1]))]),
        ("normalised by the sum of the exponents", "You used the sum of the exponents; subtract the log of"
         " the sum of their exp.",
         [lambda lp, r, b: (lp + r / b) - (lp + r / b).sum(1, keepdim=True),
          lambda lp, r, b: (lp + r / b) / (lp + r / b).sum(1, keepdim=True)]),
        ("normaliser of the scores alone", "Z = Σ π_ref·exp(r/β); yours leaves out π_ref.",
         [lambda lp, r, b: (lp + r / b) - (r / b).logsumexp(1, keepdim=True)]),
        ("a mixture", "You mixed two distributions; π* is their product, so log-probs are added.",
         [lambda lp, r, b: (0.5 * lp.exp() + 0.5 * (r / b).softmax(1)).log(),
          lambda lp, r, b: (lp.exp() + (r / b).softmax(1)).log(),
          lambda lp, r, b: ((1 - b) * lp.exp() + b * (r / b).softmax(1)).log(),
          lambda lp, r, b: (b * lp.exp() + (1 - b) * (r / b).softmax(1)).log()]),
        ("the two averaged", "You averaged the exponents; add them.",
         [lambda lp, r, b: ((lp + r / b) / 2).log_softmax(1)]),
        ("multiplied by the reference's log-probs", "log π_ref is added to r/β, not multiplied by it.",
         [lambda lp, r, b: (lp * r / b).log_softmax(1)]),
        ("the weight itself added", "You added exp(r/β) to a log-prob; the log of that weight is r/β.",
         [lambda lp, r, b: lp + (r / b).exp(), lambda lp, r, b: (lp + (r / b).exp()).log_softmax(1)]),
        ("β squared", "β divides the scores once.",
         [lambda lp, r, b: best(lp, r, b * b)]),
        ("the root of β", "You divided the scores by √β; divide them by β.",
         [lambda lp, r, b: best(lp, r, b**0.5)]),
        ("1 + β", "You divide by 1 + β; divide by β.", [lambda lp, r, b: best(lp, r, 1 + b)]),
        ("scores scaled", "Take the scores as they are: β is measured in their units.",
         [with_scores(lambda r: (r - r.mean(1, keepdim=True)) / r.std(1, keepdim=True)),
          with_scores(lambda r: (r - r.mean()) / r.std()),
          with_scores(lambda r: (r - r.mean(1, keepdim=True)) / r.std(1, keepdim=True, unbiased=False)),
          with_scores(lambda r: (r - r.mean(1, keepdim=True)) / (r.std(1, keepdim=True) + 1e-8)),
          with_scores(lambda r: r / r.std(1, keepdim=True)), with_scores(lambda r: r / r.std()),
          with_scores(lambda r: r / r.abs().amax(1, keepdim=True))]),
        ("low scores cut off", "Take every score as it is, those below a mean or 0 too.",
         [with_scores(lambda r: torch.maximum(r, r.mean(1, keepdim=True))),
          with_scores(lambda r: torch.maximum(r, r.mean())),
          with_scores(lambda r: r.clamp(min=0)), with_scores(lambda r: (r - r.mean(1,
           keepdim=True)).relu())]),
        ("all on the best response", "Your π* has one response alone, as at β → 0; each keeps a share.",
         [lambda lp, r, b: torch.where(r == r.amax(1, keepdim=True), 0.0, -math.inf),
          lambda lp, r, b: torch.where(lp + r / b == (lp + r / b).amax(1, keepdim=True), 0.0, -math.inf),
          lambda lp, r, b: torch.where(r == r.amax(1, keepdim=True), 0.0, -1e9)]),
        ("each response on its own", "You took a sigmoid of each response; they share one softmax.",
         [lambda lp, r, b: torch.nn.functional.logsigmoid(lp + r / b)]),
        ("an unnormalised ratio", "That is r/β; add the reference's log-probs and normalise.",
         [lambda lp, r, b: r / b]),
        ("base 2", "Your logarithm is to base 2; take the natural one.",
         [lambda lp, r, b: best(lp, r, b) / math.log(2)]),
        ("sign flipped", "That is −log π*.", [lambda lp, r, b: -best(lp, r, b)]),
    ]
    return [policy_mistake(name, says, wrong) for name, says, every in found for wrong in every]


def values() -> list[tuple]:
    """Rarer wrong ways to J*."""

    def tilted(lp, r, b):
        return lp + r / b

    found = [
        ("one Z for all prompts", "You summed over all prompts before the log; each prompt has its own Z.",
         [lambda lp, r, b: b * tilted(lp, r, b).logsumexp((0, 1)),
          lambda lp, r, b: b * tilted(lp, r, b).logsumexp((0, 1)) / len(r)]),
        ("Z over the prompts", "You summed over the prompts (dim=0); Z sums over a prompt's responses,"
         " dim=1.",
         [lambda lp, r, b: (b * tilted(lp, r, b).logsumexp(0)).mean(),
          lambda lp, r, b: (b * tilted(lp, r, b).logsumexp(0)).sum()]),
        ("median over the prompts", "You took the median over the prompts; take the mean.",
         [lambda lp, r, b: value(lp, r, b).median()]),
        ("one prompt alone", "You return one prompt's value; return the mean over all prompts.",
         [lambda lp, r, b: value(lp, r, b)[0], lambda lp, r, b: value(lp, r, b)[-1],
          lambda lp, r, b: value(lp, r, b).max(), lambda lp, r, b: value(lp, r, b).min()]),
        ("the largest exponent never added again", "You subtracted the largest exponent, or score; after"
         " the log it has to be added again.",
         [lambda lp, r, b: (b * (tilted(lp, r, b) - tilted(lp, r, b).amax(1,
          keepdim=True)).logsumexp(1)).mean(),
          lambda lp, r, b: (b * (lp + (r - r.amax(1, keepdim=True)) / b).logsumexp(1)).mean(),
          lambda lp, r, b: (b * (tilted(lp, r, b) - tilted(lp, r, b).max()).logsumexp(1)).mean()]),
        ("the largest exponent alone", "That is the largest exponent; J* is the log of the sum of their exp.",
         [lambda lp, r, b: (b * tilted(lp, r, b).amax(1)).mean()]),
        ("no logarithm", "You left out the log of Z.",
         [lambda lp, r, b: (b * tilted(lp, r, b).exp().sum(1)).mean(),
          lambda lp, r, b: tilted(lp, r, b).exp().sum(1).mean()]),
        ("no exponential", "You took the exponents themselves; take the log of the sum of their exp.",
         [lambda lp, r, b: (b * tilted(lp, r, b).sum(1)).mean(),
          lambda lp, r, b: (b * tilted(lp, r, b).mean(1)).mean()]),
        ("log Z of responses averaged", "Z is a sum over the responses (π_ref is in it already), not a mean.",
         [lambda lp, r, b: (b * (tilted(lp, r, b).logsumexp(1) - math.log(r.shape[1]))).mean()]),
        ("no β in the exponent", "The exponent is r/β; you have r.",
         [lambda lp, r, b: (b * (lp + r).logsumexp(1)).mean(), lambda lp, r, b: (lp +
          r).logsumexp(1).mean()]),
        ("the reference tempered", "You divided the reference's log-probs by β, too.",
         [lambda lp, r, b: (b * ((lp + r) / b).logsumexp(1)).mean()]),
        ("no β in front, and summed", "β stands in front of the log; and take the mean over the prompts.",
         [lambda lp, r, b: value(lp, r, b).sum() / b]),
        ("sign of the score", "Low scores count as good: a sign in the exponent.",
         [lambda lp, r, b: (b * (lp - r / b).logsumexp(1)).mean()]),
        ("a soft minimum", "With −r/β in the exponent and a minus in front, the lowest scores count most; the"
         " exponent is r/β.",
         [lambda lp, r, b: -(b * (lp - r / b).logsumexp(1)).mean()]),
        ("reference as a probability", "You added π_ref to r/β, not its log.",
         [lambda lp, r, b: (b * (lp.exp() + r / b).logsumexp(1)).mean()]),
        ("the weight itself added", "You added exp(r/β) to a log-prob; the log of that weight is r/β.",
         [lambda lp, r, b: (b * (lp + (r / b).exp()).logsumexp(1)).mean()]),
        ("the KL of the reference", "The KL is that of π* from π_ref, under π*.",
         [lambda lp, r, b: (best(lp, r, b).exp() * r).sum(1).mean()
          - b * (lp.exp() * (lp - best(lp, r, b))).sum(1).mean()]),
        ("the gain over the reference", "You subtracted the reference's score; J* itself is asked for.",
         [lambda lp, r, b: (value(lp, r, b) - (lp.exp() * r).sum(1)).mean()]),
        ("β squared", "β stands in front of the log once.", [lambda lp, r, b: b * value(lp, r, b).mean()]),
        ("base 2", "Your logarithm is to base 2; take the natural one.",
         [lambda lp, r, b: value(lp, r, b).mean() / math.log(2)]),
        ("the entropy added", "J* pays for the KL from π_ref; you added the entropy alone.",
         [lambda lp, r, b: (best(lp, r, b).exp() * (r - b * best(lp, r, b))).sum(1).mean()]),
        ("a mean of all scores", "That is the plain mean of the scores; weigh them.",
         [lambda lp, r, b: r.mean()]),
        ("always 0", "Your J* is 0 whatever is given: is it the log of the sum of a normalised π*, which"
         " is 1?",
         [lambda lp, r, b: (b * best(lp, r, b).logsumexp(1)).mean()]),
    ]
    return [policy_mistake(name, says, wrong) for name, says, every in found for wrong in every]
# fmt: on
