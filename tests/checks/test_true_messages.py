"""Wrong answers of which a check once said something untrue: what is said now is true."""

import copy
import random

import pytest
import torch
from clinic_answers import END, edited
from direct_answers import descending, log_probs
from overoptimization_answers import made
from test_your_trainer import trainer
from torch.nn.functional import logsigmoid

from helpers import checks


def said(name, function):
    """Name and message of a report on a wrong answer, in one text."""
    report = getattr(checks, f"check_{name}")(function)
    assert report.status == "mistake", report
    return f"{report.mistake}: {report.message}"


# --- functions of numbers ---------------------------------------------------------------------------


def in_gigabytes(parameters, adapter, method):
    return (36.0 * parameters if method == "full" else 4.0 * parameters + 32 * adapter) / 1e9


def in_mebibytes(parameters, adapter, method):
    return in_gigabytes(parameters, adapter, method) * 1e9 / 1024**2


def ties_as_a_number(chosen, rejected):
    return (chosen > rejected).float().mean() + 0.5 * (chosen == rejected).float().sum()


def ties_by_seven(chosen, rejected):
    return (chosen > rejected).float().mean() + (chosen == rejected).float().sum() / 7


def kl_without_a_root(kl_low, score_low, kl_high, score_high, kl):
    share = (kl - kl_low**0.5) / (kl_high**0.5 - kl_low**0.5)
    return score_low + share * (score_high - score_low)


def over_the_prompts(rewards, group_size):
    groups = rewards.view(-1, group_size)
    return (groups - (groups.sum(dim=0, keepdim=True) - groups) / (group_size - 1)).flatten()


def first_groups_sum(rewards, group_size):
    groups = rewards.view(-1, group_size)
    return (groups - (groups[0].sum() - groups) / (group_size - 1)).flatten()


def first_reward_too(rewards, group_size):
    groups = rewards.view(-1, group_size)
    others = groups.sum(dim=1, keepdim=True) - groups
    return (groups - others / (group_size - 1)).flatten() - 0.3 * rewards[0]


def by_outputs(x, weight, a, b, alpha, on):
    return x @ weight.T + (alpha / len(b) * (x @ a.T) @ b.T if on else 0.0)


def by_draws(scores, gold, n):
    count, chance = scores.shape[1], torch.zeros_like(scores)
    for _ in range(200):
        drawn = torch.randint(count, (len(scores), n))
        winner = drawn.gather(1, scores.gather(1, drawn).argmax(dim=1, keepdim=True))
        chance.scatter_add_(1, winner, torch.full(winner.shape, 0.005))
    kl = torch.xlogy(chance, chance * count).sum(1).mean()
    return chance, (chance * scores).sum(1).mean(), (chance * gold).sum(1).mean(), kl


def with_a_prompt(texts, seed):
    return [pair | {"prompt": text} for text, pair in zip(texts, made()(texts, seed), strict=True)]


def optimizer_before_the_copy(policy, reference, tokens, mask, kl_coef, learning_rate, steps):
    optimizer = torch.optim.SGD(policy.parameters(), lr=learning_rate)
    policy, losses = copy.deepcopy(policy), []
    with torch.no_grad():
        frozen = log_probs(reference, tokens, mask)
    for _ in range(steps):
        chosen, rejected = (log_probs(policy, tokens, mask) - frozen).chunk(2)
        loss = -logsigmoid(kl_coef * (chosen - rejected)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def cleared_too_late(weights):
    for weight in weights:
        weight.grad = None


ORDER = "    return rewards, returns, advantages"
CASES = [  # exercise, function, what is said, what is not
    ("held_bytes", in_gigabytes, "divided by 1,000,000,000", "0 everywhere"),
    ("held_bytes", in_mebibytes, "divided by 1,048,576", "0 everywhere"),
    ("held_bytes", lambda *_: 0.0, "0 everywhere", "divided"),
    ("pair_accuracy", ties_as_a_number, "half the number of ties", "strongly"),
    ("pair_accuracy", ties_by_seven, "tie", "strongly"),
    ("score_between", kl_without_a_root, "and not of kl", "square"),
    ("rloo_advantages", over_the_prompts, "dim=1", "nothing to do"),
    ("rloo_advantages", first_groups_sum, "the first group for every group", "nothing to do"),
    ("rloo_advantages", first_reward_too, "belongs to rows 0, 1", "nothing to do"),
    ("lora_forward", by_outputs, "inputs or of its outputs", "input's width"),
    ("keep_best", by_draws, "drawn at random", "row"),
    ("patch_pairs", with_a_prompt, "the prompt is not empty", "none of the texts"),
    ("steps_5_and_6", edited((END, ORDER)), "the order of the results: Each of the three", "δ"),
    ("train_dpo", optimizer_before_the_copy, "after deepcopy", "where is optimizer.step()"),
    ("train_dpo", descending(cleared_too_late), "backward after zero_grad", "where is optimizer.step()"),
    ("draw_prompts", lambda prompts, size: [random.choice(prompts)] * size, "same one", "replacement"),
    ("draw_prompts", lambda prompts, size: random.choices(prompts, k=size), "twice in a batch", "same one"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "true", "untrue"), CASES)
def test_what_is_said_is_true(name, function, true, untrue):
    words = said(name, function)
    assert true in words and untrue not in words, words


# --- lines of a trainer -----------------------------------------------------------------------------

F = "forward_logprobs"
GROUPS = 'Adam([{"params": actor.parameters()}, {"params": critic.parameters()}],'
LINES = [  # step, right text, wrong text, what is said, what is not
    (F, "def forward", "@torch.no_grad()\ndef forward", "No gradient", "`temperature`"),
    (F, ").logits", ").logits.detach()", "No gradient", "`temperature`"),
    (F, "ids[:, -length:, None]", "ids[:, :length, None]", "look up other tokens", "sum to"),
    (F, "ids[:, -length:, None]", "ids[:, -length:, None].flip(1)", "look up other tokens", "sum to"),
    ("draw_prompts", "[prompts[i]", "[prompts[order[0]]", "same index", "replacement"),
    ("train", "Adam(parameters,", GROUPS, "of optimizer.param_groups[1] stays", "The learning rate stays"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "text", "instead", "true", "untrue"), LINES)
def test_what_is_said_of_a_wrong_line_is_true(step, text, instead, true, untrue):
    words = said(step, trainer(step, text, instead)[step])
    assert true in words and untrue not in words, words


# --- the fit, the short losses, the update -----------------------------------------------------------


def test_a_constant_is_not_told_as_one_cause():
    assert "//" in said(
        "pair_accuracy", lambda c, r: torch.tensor(0.0 * float((c > r).sum() // len(c)))
    )
    clipped_first = lambda r, a, m, e: (r.clamp(1 - e, 1 + e) > 1 + e)[m].float().mean()  # noqa: E731
    assert "clipped already" in said("clip_fraction", clipped_first)
    assert "price at m = 1" in said("best_mean", lambda b, s: b / (2 * s**2))


def test_a_case_without_ties_is_told_apart_from_nearly_equal_scores():
    def of_ties(c, r):
        ties = c == r
        return (c > r).float().mean() + 0.5 * ties[ties].float().mean() * ties.float().mean()

    assert "no pair is a tie" in said("pair_accuracy", of_ties)


def test_an_unsummed_vocabulary_is_not_told_as_another_axis():
    masked = lambda x, m: -(x.softmax(-1) * x.log_softmax(-1) * m).sum() / m.sum()  # noqa: E731
    assert said("entropy", masked).startswith("not one number per token")


def test_a_word_s_own_advantage_is_not_told_where_the_words_are_looked_up_twice():
    twice = lambda z, w, a: -(z[w].log_softmax(-1)[w] * a).mean()  # noqa: E731
    assert "advantages" not in said("reinforce_loss", twice)


def test_the_first_reference_score_is_not_told_as_the_smallest():
    assert "first reference score" in said(
        "normalize_scores", lambda s, ref: (s - ref[0]) / ref.std()
    )


def fit_with(rejected_first=False, bend=lambda loss: loss, weights="both"):
    """A fit of notebook 05 written out, with another order of the texts, loss, or optimizer."""

    def fit(encoder, head, chosen, chosen_mask, rejected, rejected_mask, batches, learning_rate):
        models = {"both": [encoder, head], "encoder": [encoder]}[weights]
        optimizer = torch.optim.Adam([p for m in models for p in m.parameters()], lr=learning_rate)
        losses = []
        for i, rows in enumerate(batches):

            def score(ids, mask, rows=rows):
                hidden = encoder(ids[rows], mask[rows]).last_hidden_state[:, 0]
                return head(hidden.detach() if weights == "encoder" else hidden).squeeze(-1)

            if rejected_first:
                r = score(rejected, rejected_mask)
            c = score(chosen, chosen_mask)
            if not rejected_first:
                r = score(rejected, rejected_mask)
            loss = bend(-logsigmoid(c - r)).mean()
            optimizer.param_groups[0]["lr"] = learning_rate * (1 - i / len(batches))
            optimizer.zero_grad()
            loss.backward() if loss.requires_grad else None
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    return fit


def test_a_fit_with_another_loss_is_not_told_that_its_texts_or_its_gradient_are_wrong():
    odd = fit_with(rejected_first=True, bend=lambda x: x + 0.3 * x.sin())
    assert said("fit_pairs", odd).startswith("another loss: The first loss")


def test_a_new_tensor_made_of_the_loss_is_not_told_as_no_call_of_backward():
    remade = fit_with(bend=lambda x: x.detach().clone().requires_grad_())
    assert "not on a new tensor" in said("fit_pairs", remade)
    assert said("fit_pairs", fit_with(weights="encoder")).startswith("gradients for other weights")


def test_entries_of_a_list_of_counts_are_not_called_rows():
    message = checks.check_loss_factors(lambda counts: len(counts) / counts).message
    assert "own entry of `counts`" in message and "row" not in message
