"""Exercises of notebook 11: the implicit reward and the DPO loss. (A whole training: `train_dpo`.)"""

from collections.abc import Callable
from itertools import product

from torch.nn.functional import logsigmoid

from helpers import direct
from helpers.checks.judging.exercise import Exercise, floats, noise
from helpers.checks.judging.judge import checker
from helpers.checks.judging.raised import also_on, explained
from helpers.checks.judging.report import Report
from helpers.checks.judging.second_look import answers_of, equals
from helpers.checks.judging.sizes import far_out, sizes

# --- the implicit reward --------------------------------------------------------------------------

ONE_BETA = (floats([-3.0, -5.0, -2.0])[0], floats([-4.0, -4.5, -2.0])[0], 0.5)
OTHER_BETA = (noise(1, 6) - 12, noise(2, 6) - 12, 0.1)

# fmt: off
IMPLICIT_REWARD = Exercise(
    "implicit_reward", "logprobs ref_logprobs kl_coef", direct.implicit_reward,
    "r = β·(log π(y|x) − log π_ref(y|x)) (Rafailov et al. 2023, section 4; notebook 11)",
    [ONE_BETA, OTHER_BETA],
    [
        ("β missing", "That is the log-ratio; multiply it by β = {kl_coef}.",
         lambda p, ref, b: p - ref),
        ("divided by β", "You divided by β; multiply: r = β·log-ratio.",
         lambda p, ref, b: (p - ref) / b),
        ("reversed", "You have log π_ref − log π: a response that the policy now prefers has a"
         " positive reward.", lambda p, ref, b: b * (ref - p)),
        ("reference missing", "You left out the reference: the reward is what π has gained over it.",
         lambda p, ref, b: b * p),
        ("β on the policy alone", "β multiplies the whole difference: mind the brackets.",
         lambda p, ref, b: b * p - ref),
        ("β on the reference alone", "β multiplies the whole difference: mind the brackets.",
         lambda p, ref, b: p - b * ref),
        ("difference of probabilities", "You subtracted probabilities; subtract their logarithms.",
         lambda p, ref, b: b * (p.exp() - ref.exp())),
        ("sigmoid taken", "The log-sigmoid comes in the loss, of the difference of two rewards.",
         lambda p, ref, b: logsigmoid(b * (p - ref))),
        ("sigmoid taken", "You have β times a log-sigmoid. That one comes in the loss, of the difference"
         " of two rewards.",
         lambda p, ref, b: b * logsigmoid(p - ref)),
        ("β written in", "Your β is 0.5, whatever kl_coef says.", lambda p, ref, b: 0.5 * (p - ref)),
        ("β written in", "Your β is 0.1, whatever kl_coef says.", lambda p, ref, b: 0.1 * (p - ref)),
        ("standardised", "Do not normalise over the batch: a reward belongs to its response alone.",
         lambda p, ref, b: (lambda x: (x - x.mean()) / (x.std() + 1e-8))(b * (p - ref))),
        ("one reference for all", "You subtract one response's reference from all; each has its own.",
         lambda p, ref, b: b * (p - ref[0])),
        ("one reference for all", "You subtract the reference's mean over the batch; each has its own.",
         lambda p, ref, b: b * (p - ref.mean())),
        ("log-probs added", "Subtract the reference's log-probs: log (π/π_ref) is a difference.",
         lambda p, ref, b: b * (p + ref)),
        ("ratio without the logarithm", "You have β·π/π_ref; the reward is β·log (π/π_ref).",
         lambda p, ref, b: b * (p - ref).exp()),
        ("quotient of log-probs", "You divided log-probs; the log of a ratio is their difference.",
         lambda p, ref, b: b * p / ref),
        ("mean over responses", "You return one number; each response has its own reward, [B].",
         lambda p, ref, b: (b * (p - ref)).mean()),
        ("centred", "Do not subtract the mean: the constant cancels later, in the margin.",
         lambda p, ref, b: b * ((p - ref) - (p - ref).mean())),
        ("sigmoid taken", "The sigmoid comes in the loss, of the difference of two rewards.",
         lambda p, ref, b: (b * (p - ref)).sigmoid()),
    ],
    gradient=("logprobs",),
)


# what each log-prob may be multiplied by, in words
WEIGHTS = {
    "times β": lambda b: b,
    "without β": lambda b: 1.0,
    "divided by β": lambda b: 1 / b,
    "times β squared": lambda b: b * b,
}
SIGNS = {"add": 1, "subtract": -1}
TERMS = list(product(SIGNS, WEIGHTS))
WANTED = {"logprobs": ("add", "times β"), "ref_logprobs": ("subtract", "times β")}


def weights_in_words(function: Callable, report: Report) -> tuple[str, str] | None:
    """For a sum of the two log-probs, each with a weight of its own: the weights that are wrong."""
    if not report.mistake.startswith(("weight of", "sign of", "kl_coef without effect")):
        return None
    answers = answers_of(IMPLICIT_REWARD, function, IMPLICIT_REWARD.probes)
    for terms in product(TERMS, repeat=2) if answers is not None else ():
        if equals(answers, weighted(*terms), IMPLICIT_REWARD.probes):
            mine = dict(zip(WANTED, terms, strict=True))
            return in_words({name: mine[name] for name in mine if mine[name] != WANTED[name]})
    return None


def weighted(own: tuple[str, str], reference: tuple[str, str]) -> Callable:
    """The sum of both log-probs, each with its sign and weight."""

    def wrong(p, ref, b):
        parts = ((p, own), (ref, reference))
        return sum(SIGNS[verb] * WEIGHTS[words](b) * x for x, (verb, words) in parts)

    return wrong


def in_words(wrong: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """Name and message of log-probs with wrong weights."""
    names = [f"{name} {verb}ed {words}" for name, (verb, words) in wrong.items()]
    says = [
        f"You {verb}ed `{name}` {words}; {WANTED[name][0]} β times it."
        for name, (verb, words) in wrong.items()
    ]
    return ", ".join(names), " ".join(says)


# --- the loss -------------------------------------------------------------------------------------


def gains(chosen, rejected, ref_chosen, ref_rejected):
    """h = difference of the two log-ratios: [B] nats."""
    return (chosen - ref_chosen) - (rejected - ref_rejected)


def from_margin(loss):
    """A wrong function from another loss of the right margins: [B] → anything."""
    return lambda c, r, rc, rr, b: loss(b * gains(c, r, rc, rr))


def from_gains(h):
    """A wrong function with the right loss of another h(c, r, rc, rr)."""
    return lambda c, r, rc, rr, b: -logsigmoid(b * h(c, r, rc, rr)).mean()


PAIR = (*floats([-3.0], [-7.0], [-5.0], [-6.0]), 0.5)
PAIRS = (*(3 * noise(3, 4, 5) - 15), 0.2)
FAR = (*floats([-200.0, -5.0], [-20.0, -90.0], [-30.0, -60.0], [-40.0, -20.0]), 1.0)

DPO_LOSS = Exercise(
    "dpo_loss", "chosen rejected ref_chosen ref_rejected kl_coef",
    lambda *arguments: direct.dpo_loss(*arguments)[0],
    "−mean log σ(β·[(log π − log π_ref)(chosen) − (log π − log π_ref)(rejected)])"
    " (Rafailov et al. 2023, eq. 7; notebook 11)",
    [PAIR, PAIRS, FAR],
    [
        ("reference missing", "Your margin is of log π alone; take each response's log-ratio to the"
         " reference.", from_gains(lambda c, r, rc, rr: c - r)),
        ("reference added", "You added the reference's difference; subtract it.",
         from_gains(lambda c, r, rc, rr: (c - r) + (rc - rr))),
        ("log-ratios added", "You added the two log-ratios; the margin is chosen minus rejected.",
         from_gains(lambda c, r, rc, rr: (c - rc) + (r - rr))),
        ("chosen and rejected swapped", "The loss must fall as the *chosen* response gains: your"
         " margin is rejected − chosen.", from_margin(lambda m: -logsigmoid(-m).mean())),
        ("rejected missing", "You looked at the chosen response alone; the loss compares the two.",
         from_gains(lambda c, r, rc, rr: c - rc)),
        ("policy left out", "Your margin is the reference's; the policy does not occur in it.",
         from_gains(lambda c, r, rc, rr: rc - rr)),
        ("every margin 0", "Your loss is log 2 whatever is given, so every margin is 0. Is something"
         " subtracted"
         " from itself: a log-prob from its own value (take ref_chosen and ref_rejected), or one side from"
         " the same side?",
         from_gains(lambda c, r, rc, rr: gains(c, r, c.detach(), r.detach()))),
        ("logarithm of the mean", "You took the logarithm of the mean of σ; take the mean of log σ.",
         from_margin(lambda m: -m.sigmoid().mean().log())),
        ("β missing", "β = {kl_coef} has no effect: it multiplies the log-ratios.",
         lambda c, r, rc, rr, b: -logsigmoid(gains(c, r, rc, rr)).mean()),
        ("β outside the sigmoid", "β belongs inside the sigmoid; outside it only scales the loss.",
         lambda c, r, rc, rr, b: -b * logsigmoid(gains(c, r, rc, rr)).mean()),
        ("divided by β", "You divided the margin by β; multiply it.",
         lambda c, r, rc, rr, b: -logsigmoid(gains(c, r, rc, rr) / b).mean()),
        ("logarithm missing", "That is −σ(margin); the loss is −log σ(margin).",
         from_margin(lambda m: -m.sigmoid().mean())),
        ("probability of an error", "That is 1 − σ(margin); the loss is −log σ(margin).",
         from_margin(lambda m: (-m).sigmoid().mean())),
        ("minus sign missing", "The loss is *minus* log σ: the optimizer minimises it.",
         from_margin(lambda m: logsigmoid(m).mean())),
        ("overflow", "Where the margin is far below 0, σ rounds to 0 or exp overflows: use"
         " logsigmoid or softplus.",
         from_margin(lambda m: -m.sigmoid().log().mean())),
        ("epsilon in the logarithm", "log(σ + ε), or of a σ of at least ε, is wrong where σ is tiny: use"
         " logsigmoid.",
         from_margin(lambda m: -(m.sigmoid() + 1e-8).log().mean())),
        ("epsilon of 1e-6 in the logarithm", "log(σ + ε), or of a σ of at least ε, is wrong where σ is"
         " tiny: use"
         " logsigmoid.",
         from_margin(lambda m: -(m.sigmoid() + 1e-6).log().mean())),
        ("no sigmoid", "You return −margin, which has no end; the loss is −log σ(margin).",
         from_margin(lambda m: -m.mean())),
        ("hinge", "That is a hinge loss (SLiC); DPO's is −log σ(margin).",
         from_margin(lambda m: (1 - m).relu().mean())),
        ("IPO", "That is IPO's squared error; DPO's loss is −log σ(margin).",
         lambda c, r, rc, rr, b: (gains(c, r, rc, rr) - 1 / (2 * b)).square().mean()),
        ("sum instead of mean", "You summed over the pairs; take the mean.",
         from_margin(lambda m: -logsigmoid(m).sum())),
        ("one loss per pair", "You return one loss a pair; return their mean.",
         from_margin(lambda m: -logsigmoid(m))),
        ("mean of the margins first", "Take −log σ of each pair's margin, then the mean.",
         from_margin(lambda m: -logsigmoid(m.mean()))),
        ("ratios without the logarithm", "You compared π/π_ref; compare their logarithms.",
         from_gains(lambda c, r, rc, rr: (c - rc).exp() - (r - rr).exp())),
        ("β on a part of the margin", "β multiplies the policy's log-probs only; it multiplies the whole"
         " margin, the reference's too.", lambda c, r, rc, rr, b: -logsigmoid(
             b * (c - r) - (rc - rr)).mean()),
        ("β on a part of the margin", "β multiplies the chosen side only; it multiplies the whole margin.",
         lambda c, r, rc, rr, b: -logsigmoid(b * (c - rc) - (r - rr)).mean()),
        ("β on a part of the margin", "β multiplies the rejected side only; it multiplies the whole margin.",
         lambda c, r, rc, rr, b: -logsigmoid((c - rc) - b * (r - rr)).mean()),
        ("β on a part of the margin", "β multiplies the reference's log-probs only; it multiplies the whole"
         " margin.", lambda c, r, rc, rr, b: -logsigmoid((c - r) - b * (rc - rr)).mean()),
        ("a sign in the margin", "ref_rejected has the wrong sign: (chosen − ref_chosen) − (rejected −"
         " ref_rejected). Mind the brackets.",
         from_gains(lambda c, r, rc, rr: c - rc - r - rr)),
        ("a sign in the margin", "ref_chosen has the wrong sign: (chosen − ref_chosen) − (rejected −"
         " ref_rejected).", from_gains(lambda c, r, rc, rr: c + rc - r + rr)),
        ("smoothed labels", "You smoothed the labels (a share of the loss of −margin); here the label is"
         " taken as it is.", from_margin(lambda m: -(
             0.9 * logsigmoid(m) + 0.1 * logsigmoid(-m)).mean())),
        ("all pairs with all", "You compared each chosen response with every rejected one; pair b has one of"
         " each.", lambda c, r, rc, rr, b: -logsigmoid(
             b * ((c - rc)[:, None] - (r - rr)[None, :])).mean()),
        ("quotient of log-probs", "You divided log-probs; the log of a ratio is their difference.",
         from_gains(lambda c, r, rc, rr: c / rc - r / rr)),
        ("quotient of log-probs", "You divided log-probs; the log of a ratio is their difference.",
         from_gains(lambda c, r, rc, rr: c / r - rc / rr)),
        ("one reference for all", "You subtract the references' means over the batch; each pair has its own.",
         from_gains(lambda c, r, rc, rr: c - r - (rc - rr).mean())),
        ("one reward in the sigmoid each", "You took log σ of each reward; take it of their"
         " difference.", lambda c, r, rc, rr, b: -(
             logsigmoid(b * (c - rc)) - logsigmoid(b * (r - rr))).mean()),
    ],
    gradient=("chosen", "rejected"),
)
# fmt: on

LONG = (  # two long responses: even a float64 holds their probabilities as 0
    "wrong for long responses",
    "Right for short responses, wrong for long ones, with log-probs around −1000: do you take exp (it is 0,"
    " and 0/0 is NaN), or clip something? The difference of the log-probs is the log of the ratio, as it is.",
    (*floats([-1000.0, -900.0], [-1010.0, -850.0]), 0.1),
)
FAR_GAINS = far_out(
    "log-ratios are some hundred, and β is 2",
    (*floats([-300.0, -10.0], [-9.0, -400.0], [-20.0, -15.0], [-80.0, -2.0]), 2.0),
)  # fmt: skip

check_implicit_reward = explained(
    checker(IMPLICIT_REWARD),
    then=also_on(IMPLICIT_REWARD, LONG, *sizes(ONE_BETA, token=False)),
    cause=weights_in_words,
)
check_dpo_loss = explained(
    checker(DPO_LOSS),
    then=also_on(DPO_LOSS, FAR_GAINS, *sizes(PAIRS, token=False)),
)
