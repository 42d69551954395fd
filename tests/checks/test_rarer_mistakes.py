"""Mistakes that look right on small or well-behaved inputs are caught, and named by what they are."""

import math
import random
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from chat_answers import rollout_by_pieces
from clinic_answers import END, RETURNS, WHITEN, edited
from reward_answers import loop

from helpers import checks
from helpers.checks.gae.credit import advantages, to_go
from helpers.checks.gae.td_errors import td
from helpers.checks.judging.report import show
from helpers.checks.overoptimization.patch_pairs import FLATTERING
from helpers.checks.real_models.chat_model import chat_actor, chat_tokenizer
from helpers.checks.whitening.whiten_slips import own


def named(name, function):
    """The report of one exercise's check."""
    return getattr(checks, f"check_{name}")(function)


# --- short ones of several lessons ----------------------------------------------------------------


def first_rows_length(r, v, g, mask):
    cut = v * mask[:1]
    following = F.pad(cut[:, 1:], (0, 1))
    return (r + g * following - cut).masked_fill(~mask, 0.0)


def mean_of_factors(correct, k):
    n, i = correct.shape[1], torch.arange(k)
    wrong = n - correct.sum(1, keepdim=True)
    return 1 - torch.div(wrong - i, n - i).mean(1)


def unpaired_variance(before, after):
    rise = after - before
    return torch.stack([rise.mean(), rise.var() / math.sqrt(len(rise))])


def times_the_root(before, after):
    rise = after - before
    return torch.stack([rise.mean(), rise.std() * math.sqrt(len(rise))])


def two_less(x, mask):
    return ((x[mask] - x[mask].mean()) ** 2).sum() / (mask.sum() - 2)


SHORT = [
    ("response_mask", "the last token taken for padding", lambda x, e: x.ne(x[:, -1:]) | x.eq(e)),
    ("td_errors", "one length for all", first_rows_length),
    ("pass_at_k", "factors averaged", mean_of_factors),
    ("edit_effect", "variance", unpaired_variance),
    ("edit_effect", "multiplied by √N", times_the_root),
    ("masked_var", "n − 2", two_less),
    ("rloo_advantages", "group_size groups", lambda r, k: (lambda g: (
        g - (g.sum(1, True) - g) / (k - 1)).ravel())(r.reshape(k, -1))),
    ("rloo_advantages", "divided by K + 1", lambda r, k: (lambda g: (
        g - (g.sum(1, True) - g) / (k + 1)).ravel())(r.reshape(-1, k))),
    ("grpo_advantages", "sum subtracted", lambda r, k: (lambda g: (
        (g - g.sum(1, True)) / (g.std(1, keepdim=True) + 1e-4)).ravel())(r.reshape(-1, k))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "mistake", "answer"), SHORT, ids=[f"{a}-{b}" for a, b, _ in SHORT]
)
def test_a_short_mistake_is_named(name, mistake, answer):
    assert named(name, answer).mistake == mistake


# --- 02 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["centred", "divided"])
def test_returns_from_changed_advantages_are_named(change):
    def credit(r, v, g, lam, m):
        a = advantages(r, v, g, lam, m)
        moved = a - a[m].mean() if change == "centred" else a / a[m].std()
        return td(r, v, g, m), a, torch.where(m, moved + v, 0.0), to_go(r, g, m)

    assert named("credit", credit).mistake == f"returns from {change} advantages"


# --- 03 -------------------------------------------------------------------------------------------


def test_the_deviation_of_what_is_whitened_is_named():
    def answer(a, v, mask, floor):
        whitened, returns, gauges = own(a, v, mask, floor)
        kept = whitened[mask]
        std = kept.std() if len(kept) > 1 else kept.new_zeros(())
        return whitened, returns, torch.stack([gauges[0], std, *gauges[2:]])

    assert named("whiten_rollout", answer).mistake == "deviation of what is whitened"


def test_a_variance_of_two_tokens_is_looked_at():
    def answer(x, mask):
        kept = x[mask]
        return (kept - kept.mean()).square().sum() / max(len(kept) - 1, 2)

    assert named("masked_var", answer).mistake == "two tokens"

    def whiten(a, mask):
        return torch.where(mask, (a - a[mask].mean()) / (answer(a, mask) + 1e-8).sqrt(), 0.0)

    assert named("whiten_advantages", whiten).mistake == "two tokens"


@pytest.mark.parametrize("name", ["masked_mean", "masked_var"])
def test_nan_put_in_the_padding_is_named(name):
    def answer(x, mask):
        kept = torch.where(mask, x, torch.nan)
        return kept.mean() if name == "masked_mean" else kept.var()

    assert named(name, answer).mistake == "not finite with padding"


def test_padding_that_is_not_cleared_is_called_so_before_nan_is():
    def answer(a, v, mask, floor):
        whitened, _, gauges = own(a, v, mask, floor)
        return whitened, a + v, gauges

    report = named("whiten_rollout", answer)
    assert report.mistake == "masked positions", report


GAUGES = [
    (
        "sum instead of mean",
        lambda seen, error, returns: (seen.sum(), seen.std(), 1 - error / returns),
    ),
    (
        "not divided by Var(returns)",
        lambda seen, error, returns: (seen.mean(), seen.std(), 1 - error),
    ),
    ("1 − forgotten", lambda seen, error, returns: (seen.mean(), seen.std(), -error / returns)),
]


@pytest.mark.parametrize(("name", "gauge"), GAUGES, ids=[name for name, _ in GAUGES])
def test_a_wrong_gauge_is_named(name, gauge):
    def answer(a, v, mask, floor):
        whitened, returns, gauges = own(a, v, mask, floor)
        if mask.sum() < 2:
            return whitened, returns, gauges
        mean, std, explained = gauge(a[mask], a[mask].var(), returns[mask].var().clamp(min=1e-12))
        return whitened, returns, torch.stack([mean, std, gauges[2], explained])

    assert named("whiten_rollout", answer).mistake == name


# --- 05 -------------------------------------------------------------------------------------------

FAR = {
    "log of the sigmoid": lambda c, r: -torch.log(torch.sigmoid(c - r)).mean(),
    "log of 1 + exp": lambda c, r: torch.log1p(torch.exp(r - c)).mean(),
    "a quotient of exponentials": lambda c, r: -(c.exp() / (c.exp() + r.exp())).log().mean(),
}
NEAR = {
    "an epsilon": lambda c, r: -torch.log(torch.sigmoid(c - r) + 1e-10).mean(),
    "a clamp": lambda c, r: -F.logsigmoid((c - r).clamp(-30, 30)).mean(),
}
STABLE = {
    "softplus": lambda c, r: F.softplus(r - c).mean(),
    "cross-entropy": lambda c, r: F.binary_cross_entropy_with_logits(c - r, torch.ones_like(c)),
    "logsumexp": lambda c, r: (torch.logaddexp(c, r) - c).mean(),
}


@pytest.mark.parametrize("loss", FAR)
def test_a_loss_that_overflows_is_named(loss):
    report = named("fit_pairs", loop(loss_of=FAR[loss]))
    assert report.mistake == "overflow for large differences" and "logsigmoid" in report.message


@pytest.mark.parametrize("loss", NEAR)
def test_a_loss_that_is_bounded_is_named(loss):
    report = named("fit_pairs", loop(loss_of=NEAR[loss]))
    assert report.mistake == "the loss bounded for large differences"


@pytest.mark.parametrize("loss", STABLE)
def test_a_loss_that_stays_finite_passes(loss):
    assert named("fit_pairs", loop(loss_of=STABLE[loss])).status == "correct"


# --- 07 -------------------------------------------------------------------------------------------


def logarithms(log):
    return lambda a, p, b, q, x: p + (q - p) * (log(x) - log(a)) / (log(b) - log(a))


@pytest.mark.parametrize(
    "log",
    [
        lambda kl: torch.tensor(kl).log(),
        lambda kl: math.log(max(kl, 1e-3)),
        lambda kl: math.log10(kl + 1e-12),
    ],
)
def test_logarithms_of_the_kl_are_named_whatever_happens_at_zero(log):
    report = named("score_between", logarithms(log))
    assert report.mistake == "linear in log KL" and "roots" in report.message


def policy(lp, r, b):
    return (lp + r / b).log_softmax(1)


def value(lp, r, b):
    return (b * (lp + r / b).logsumexp(1)).mean()


def test_a_step_without_n_over_horizon_is_told_in_the_numbers_of_the_case():
    def optimum(lp, r, b, kl, t, n, h):
        return policy(lp, r, b), value(lp, r, b), b * (1 + max(-0.2, min(0.2, kl / t - 1)))

    report = named("optimum", optimum)
    shown = dict(report.case)
    assert report.mistake == "no n/horizon" and "20 times" not in report.message
    assert f"n = {shown['n']}" in report.message
    assert f"horizon of {float(shown['horizon']):g}" in report.message


def test_no_formula_is_shown_of_a_part_that_is_not_wrong():
    def raises(lp, r, b, kl, t, n, h):
        return policy(lp, r, b), value(lp, r, b), kl.mean()

    assert named("optimum", raises).mistake == "exception" and not named("optimum", raises).look
    begun = named("optimum", lambda lp, r, b, *rest: (policy(lp, r, b), *[NotImplemented] * 2))
    assert begun.status == "not attempted" and not begun.look
    wrong = named("optimum", lambda lp, r, b, *rest: (policy(lp, r, b), r.mean(), NotImplemented))
    assert wrong.look.startswith("J*") and "π*" not in wrong.look


# --- 08 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("join", ["{text}{flattery}", "{flattery}{text}"])
def test_flattery_without_a_space_is_named(join):
    def patch_pairs(texts, seed):
        coin = random.Random(seed)
        pairs = []
        for k, text in enumerate(texts):
            sides = [text, join.format(text=text, flattery=FLATTERING[k % 3])]
            coin.shuffle(sides)
            pairs.append({"prompt": "", "chosen": sides[0], "rejected": sides[1]})
        return pairs

    assert named("patch_pairs", patch_pairs).mistake == "no space between"
    join = join.replace("}{", "} {")
    assert named("patch_pairs", patch_pairs).status == "correct"


@pytest.mark.parametrize("share", [0.25, 0.7, 0.75])
def test_a_coin_that_is_not_fair_is_named(share):
    def patch_pairs(texts, seed):
        coin, pairs = random.Random(seed), []
        for k, text in enumerate(texts):
            flattering = f"{text} {FLATTERING[k % 3]}"
            sides = (flattering, text) if coin.random() < share else (text, flattering)
            pairs.append({"prompt": "", "chosen": sides[0], "rejected": sides[1]})
        return pairs

    assert named("patch_pairs", patch_pairs).mistake == "not a fair coin"


# --- 09 -------------------------------------------------------------------------------------------

ON_PADDING = {
    "advantages": [(WHITEN, WHITEN.removesuffix(" * counted"))],
    "returns": [(RETURNS, "    returns = torch.where(counted, advantages + values, 7.0)\n")],
    "NaN": [(END, "    advantages = torch.where(counted, advantages, float('nan'))\n" + END)],
}


@pytest.mark.parametrize("which", ON_PADDING)
def test_numbers_on_padding_are_named(which):
    report = named("steps_5_and_6", edited(*ON_PADDING[which]))
    assert report.mistake == "padding not 0" and [label for label, _ in report.case], report


@pytest.mark.parametrize("mean", ["advantages.mean()", "(advantages * counted).mean()"])
def test_a_mean_over_padding_is_named(mean):
    right = "(advantages * counted).sum() / counted.sum()"
    assert named("steps_5_and_6", edited((right, mean))).mistake == "padding in the mean"


# --- 10 -------------------------------------------------------------------------------------------


def test_a_wrong_case_of_pass_at_k_is_named():
    def pass_at_k(correct, k):
        n, wrong = correct.shape[1], (~correct).sum(1)
        share = torch.tensor([math.comb(int(w), k) / math.comb(n, k) for w in wrong])
        return torch.where(wrong < k, 0.5, 1 - share)

    report = named("pass_at_k", pass_at_k)
    assert report.mistake == "wrong where fewer than k are wrong", report


# --- 12 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_another_temperature_is_named(temperature):
    def chat_rollout(tokenizer, actor, conversations, answers):
        def cooled(**given):
            return SimpleNamespace(logits=actor(**given).logits / temperature)

        return rollout_by_pieces(tokenizer, cooled, conversations, answers)

    report = named("chat_rollout", chat_rollout)
    assert report.mistake == "temperature" and f"{temperature:g}" in report.message


def test_models_and_tokenizers_are_shown_by_name():
    assert show(chat_tokenizer()) == f"a tokenizer ({type(chat_tokenizer()).__name__})"
    assert show(chat_actor()) == "a model (GPT2LMHeadModel)"
    assert "Linear" in show(torch.nn.Linear(2, 1))


@pytest.mark.parametrize("rank", [lambda a: a.shape[1], lambda a: a.size(-1)])
def test_the_width_for_the_rank_is_named(rank):
    def lora_forward(x, weight, a, b, alpha, on):
        return x @ weight.T + (alpha / rank(a) * (x @ a.T) @ b.T if on else 0.0)

    report = named("lora_forward", lora_forward)
    assert report.mistake == "divided by the width" and "a.shape[0]" in report.message


# --- 13 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("all_rows", [True, False])
def test_a_mean_of_the_responses_means_is_named(all_rows):
    def loss_shares(losses, mask):
        each = (losses * mask).sum(2) / mask.sum(2).clamp(min=1)
        return each.sum(1) / each.numel() if all_rows else each.mean(1)

    assert named("loss_shares", loss_shares).mistake == "mean of the responses' means"


def test_one_number_has_one_cause_only_where_nothing_else_gives_it():
    """Answers that gave the numbers, or failed on the case, of a mistake which they do not make."""

    def clamped(r, k):
        g = r.clamp(-50, 50).view(-1, k)
        return ((g - g.mean(1, True)) / (g.std(1, keepdim=True) + 1e-4)).flatten()

    for check, name, answer in (
        (checks.check_pass_at_k, "1 or 0", lambda c, k: ((~c).sum(1) < k).double()),
        (checks.check_loss_factors, "the same for all parts", lambda n: torch.full_like(n, len(n))),
        (checks.check_grpo_advantages, "wrong for large numbers", clamped),
        (
            checks.check_dpo_loss,
            "every margin 0",
            lambda c, r, rc, rr, b: -torch.nn.functional.logsigmoid(b * (c - rc - (c - rc))).mean(),
        ),
    ):
        assert check(answer).mistake == name
