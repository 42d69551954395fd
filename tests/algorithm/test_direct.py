"""DPO and IPO by their definitions, their exact optima, training, exact resumption."""

import copy
import json
import math
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from conftest import PAIRS, moved, strip, tiny_models
from strategies import EOS, PROMPTS, RESPONSES, TOKENS, close, flat, seeded, tiny_policy

from helpers import direct, pairs
from helpers.checkpoints import load_checkpoint
from helpers.config import DirectConfig
from helpers.models import fingerprint
from helpers.sampling import Responses, decode
from helpers.scale.distributed import launch
from helpers.state import start_run
from helpers.theory.optimum import gibbs_policy
from helpers.tools.parallel import rank


def logprobs(count=5):
    """Log-probs of `count` pairs: chosen, rejected, and both under the reference, float64."""
    return torch.randn(4, count, generator=seeded(), dtype=torch.float64) - 5


# --- the losses, by hand --------------------------------------------------------------------------

# log-probs of the chosen and of the rejected response, and both under the reference
ONE_PAIR = torch.tensor([[-3.0], [-7.0], [-5.0], [-6.0]])


def test_dpo_of_one_pair_by_hand():
    """The policy gained 2 nats on the chosen response and lost 1 on the rejected one."""
    loss, stats = direct.dpo_loss(*ONE_PAIR, 0.5)
    assert float(loss) == pytest.approx(math.log(1 + math.exp(-0.5 * 3)))
    expected = {"accuracy": 1, "margin": 1.5, "chosen_reward": 1, "rejected_reward": -0.5}
    expected |= {"chosen_logprobs": -3, "rejected_logprobs": -7}
    assert {name: float(value) for name, value in stats.items()} == pytest.approx(expected)


def test_ipo_of_one_pair_by_hand():
    """h = 3 nats, whatever τ is; with τ = 0.5 the target is 1, and at the target the loss is 0."""
    loss, stats = direct.ipo_loss(*ONE_PAIR, 0.5)
    assert float(loss) == pytest.approx((3 - 1) ** 2)
    assert float(stats["margin"]) == pytest.approx(1.5)
    assert float(direct.ipo_loss(*ONE_PAIR, 1 / 6)[0]) == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("labelled", [False, True])
def test_the_gradient_weighs_a_pair_by_how_wrong_it_is(labelled):
    """β·σ(−margin) with hard labels, β·(P − σ(margin)) with soft ones; none into the reference."""
    tensors = logprobs().requires_grad_()
    labels = torch.rand(5, generator=seeded(1), dtype=torch.float64) if labelled else torch.ones(5)
    loss, _ = direct.dpo_loss(*tensors, 0.3, labels if labelled else None)
    loss.backward()
    margin = 0.3 * ((tensors[0] - tensors[2]) - (tensors[1] - tensors[3])).detach()
    weight = 0.3 * (labels - margin.sigmoid()) / 5
    close(tensors.grad[0], -weight)
    close(tensors.grad[1], weight)
    assert float(tensors.grad[2:].abs().max()) == 0


@pytest.mark.parametrize("loss", ["dpo", "ipo"])
def test_the_two_responses_may_change_places_with_their_label(loss):
    chosen, rejected, ref_chosen, ref_rejected = logprobs()
    labels = torch.rand(5, generator=seeded(1), dtype=torch.float64)
    one = direct.LOSSES[loss](chosen, rejected, ref_chosen, ref_rejected, 0.3, labels)
    other = direct.LOSSES[loss](rejected, chosen, ref_rejected, ref_chosen, 0.3, 1 - labels)
    close(one[0], other[0])
    for name, value in one[1].items():
        close(value, other[1][name])
    # a soft label is the mean over the choices
    pair, found = logprobs(1), {}
    for chance in (1.0, 0.0, 0.3):
        value, stats = direct.LOSSES[loss](*pair, 0.3, torch.tensor([chance]).double())
        found[chance] = torch.stack([value, *stats.values()])
    close(found[0.3], 0.3 * found[1.0] + 0.7 * found[0.0])


def test_at_the_reference_the_loss_is_log_2_and_every_pair_a_tie():
    reference = logprobs()[:2]
    loss, stats = direct.dpo_loss(*reference, *reference, 0.3)
    assert float(loss) == pytest.approx(math.log(2))
    assert float(stats["accuracy"]) == 0.5 and float(stats["margin"]) == 0


# --- through a real model -------------------------------------------------------------------------


def token_by_token(policy, prompt, response, temperature=1.0):
    """log π of a response by the definition: one forward for each token, nothing padded."""
    total = 0.0
    for t, token in enumerate(response):
        logits = policy(torch.tensor([prompt + response[:t]])).logits[0, -1] / temperature
        total = total + logits.log_softmax(-1)[token]
    return total


def test_the_log_prob_of_a_response_is_the_sum_over_its_tokens_and_no_others():
    policy = tiny_policy()
    found = direct.sequence_logprobs(policy, *TOKENS)
    expected = [token_by_token(policy, *row) for row in zip(PROMPTS, RESPONSES, strict=True)]
    close(found, torch.stack(expected), 1e-5, 1e-5)
    assert RESPONSES[2] == [EOS] and float(found[2].detach()) < -0.1, "the stop token is an action"


SMALL = DirectConfig(
    iterations=8, batch_size=4, minibatch_size=2, response_length=6, normalize_scores=False,
    checkpoint_every=3, device="cpu", learning_rate=3e-3, kl_coef=0.5,
)  # fmt: skip
ROWS = [
    {"prompt": "we saw this film", "chosen": ". it was good.", "rejected": "and it was bad."},
    {"prompt": "the soup", "chosen": "was good.", "rejected": "was bad, but we enjoyed the film."},
    {"prompt": "i read", "chosen": "this book.", "rejected": "this good book."},
]


def test_pairs_become_prompt_words_and_the_stop_token():
    tokenizer = tiny_models().tokenizer
    encoded = pairs.encode_pairs(tokenizer, ROWS, 6)
    for i, text in enumerate([row["prompt"] + " " + row["chosen"] for row in ROWS]):
        ids = encoded.query_tensors[i][encoded.query_mask[i]].tolist()
        (decoded,) = decode(tokenizer, *(x[i : i + 1] for x in encoded.tokens()))
        assert decoded == text.replace(" .", ".")
        ids += encoded.response_tensors[i][encoded.response_mask[i]].tolist()
        assert ids == tokenizer(text)["input_ids"] + [tokenizer.eos_token_id]
    ended = (encoded.response_tensors == tokenizer.eos_token_id) & encoded.response_mask
    assert ended.any(dim=1).tolist() == [True, True, True, True, False, True]
    assert encoded.response_mask.sum(dim=1).tolist() == [6, 4, 4, 6, 6, 5]
    assert encoded.texts[4] == "the soup was bad, but we enjoyed the film."


def test_a_pad_that_is_the_stop_token_does_not_count():
    tokenizer = copy.deepcopy(tiny_models().tokenizer)
    expected = pairs.encode_pairs(tokenizer, ROWS, 5).response_mask
    tokenizer.pad_token = tokenizer.eos_token
    assert torch.equal(pairs.encode_pairs(tokenizer, ROWS, 5).response_mask, expected)


def pair_world(**changes):
    """State of a run on `ROWS` whose policy has left the reference, and its data."""
    config = replace(SMALL, iterations=9, learning_rate=1e-2, **changes)
    state = start_run(config, tiny_models(), prompts=["the soup"])
    moved(state.models.actor, 0.05)
    batch = pairs.encode_batch(state, ROWS)
    pairs.fill_reference(state, batch, torch.arange(len(ROWS)))
    return state, batch


def loss_of_rows(state, rows):
    """The loss of these rows by the definition: one response at a time, token by token."""
    tokenizer, config = state.models.tokenizer, state.config
    found = []
    for model in (state.models.actor, state.models.reference):
        for side in ("chosen", "rejected"):
            texts = [row["prompt"] + " " + row[side] for row in rows]
            prompts = [tokenizer(row["prompt"])["input_ids"] for row in rows]
            ids = [tokenizer(text)["input_ids"] + [tokenizer.eos_token_id] for text in texts]
            cut = [i[len(p) :][: config.response_length] for p, i in zip(prompts, ids, strict=True)]
            each = zip(prompts, cut, strict=True)
            logs = [token_by_token(model, *row, config.temperature) for row in each]
            found.append(torch.stack(logs))
    ratios = config.kl_coef * (found[0] - found[2].detach() - found[1] + found[3].detach())
    return -ratios.sigmoid().log().mean()


@pytest.mark.parametrize("size", [1, 2, 32])
def test_the_gradient_is_the_definition_s_whatever_the_micro_batches(size):
    state, data = pair_world(micro_batch_size=size, temperature=0.7)
    actor = state.models.actor
    expected_loss = loss_of_rows(state, ROWS)
    expected = torch.autograd.grad(expected_loss, list(actor.parameters()), allow_unused=True)
    stats = direct.accumulate_gradients(actor, data, torch.arange(3), state.config)
    assert float(stats["loss"]) == pytest.approx(float(expected_loss.detach()), abs=1e-5)
    for parameter, gradient in zip(actor.parameters(), expected, strict=True):
        if gradient is not None:
            close(parameter.grad, gradient, 1e-5, 1e-4)
    assert all(parameter.grad is None for parameter in state.models.reference.parameters())
    measured = direct.evaluate_pairs(state, ROWS)
    assert measured == pytest.approx({k: float(v) for k, v in stats.items()}, abs=1e-5)


def test_an_update_takes_one_step_a_minibatch_at_the_annealed_rate():
    state, data = pair_world()
    state.iteration = 3
    actor, other = state.models.actor, copy.deepcopy(state.models.actor)
    state.optimizer = torch.optim.SGD(actor.parameters(), lr=9.0)
    metrics = direct.update(state, data, torch.tensor([2, 0, 1]))
    rate = 1e-2 * (1 - 3 / 9)
    assert metrics["learning_rate"] == pytest.approx(rate)
    state.models.actor = other
    for rows in ([ROWS[2], ROWS[0]], [ROWS[1]]):
        parameters = list(other.parameters())
        gradients = torch.autograd.grad(loss_of_rows(state, rows), parameters, allow_unused=True)
        norm = torch.cat([g.flatten() for g in gradients if g is not None]).norm()
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                if gradient is not None:
                    parameter -= rate * gradient / max(1.0, float(norm))
    close(flat(actor), flat(other), 1e-5, 1e-4)


# --- the exact optimum ----------------------------------------------------------------------------


def fitted(loss, reference, win, kl_coef):
    """A table policy fitted to all pairs of answers with P(a ≻ b) = win[a, b]: probabilities [N]."""
    first, second = torch.cartesian_prod(*2 * [torch.arange(len(reference))]).unbind(1)
    logits = torch.zeros(len(reference), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=300, line_search_fn="strong_wolfe")
    optimizer.param_groups[0] |= {"tolerance_grad": 1e-12, "tolerance_change": 1e-16}
    ref = reference.log()

    def closure():
        optimizer.zero_grad()
        policy = logits.log_softmax(-1)
        sides = (policy[first], policy[second], ref[first], ref[second])
        value, _ = direct.LOSSES[loss](*sides, kl_coef, win[first, second])
        value.backward()
        return value

    optimizer.step(closure)
    return logits.detach().softmax(-1)


REFERENCE = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.04, 0.01], dtype=torch.float64)
REWARDS = torch.tensor([0.0, -0.5, 1.0, 0.2, 0.8, 1.5], dtype=torch.float64)
WIN = torch.sigmoid(REWARDS[:, None] - REWARDS[None, :])


@pytest.mark.parametrize("kl_coef", [0.3, 1.0])
@pytest.mark.parametrize("loss, rewards", [("dpo", REWARDS), ("ipo", WIN.mean(dim=1))])
def test_each_loss_on_all_pairs_finds_its_optimum(loss, rewards, kl_coef):
    """Of IPO r = E[p(y ≻ y′)], y′ drawn as the pairs were (Azar et al. 2024, section 5)."""
    policy = fitted(loss, REFERENCE, WIN, kl_coef)
    close(policy, gibbs_policy(REFERENCE, rewards, kl_coef), 1e-5, 1e-4)


def test_at_the_optimum_implicit_rewards_differ_as_the_rewards_do():
    best = gibbs_policy(REFERENCE, REWARDS, 0.3)
    found = direct.implicit_reward(best.log(), REFERENCE.log(), 0.3)
    close(found - found[0], REWARDS - REWARDS[0])


# --- pairs of a run -------------------------------------------------------------------------------


def test_each_pass_takes_every_pair_once_in_another_order():
    state, drawn = pair_world()[0], []
    for state.iteration in range(15):
        drawn += pairs.draw_pairs(state, 10).tolist()
    passes = [drawn[k : k + 10] for k in range(0, 60, 10)]
    assert all(sorted(one) == list(range(10)) for one in passes)
    assert len({tuple(one) for one in passes}) == 6


def test_of_the_data_only_what_the_run_will_use_is_encoded_and_another_seed_takes_others():
    state, _ = pair_world()
    state.config = replace(state.config, iterations=2)
    rows = [{"prompt": "the soup", "chosen": "was " * k, "rejected": "is"} for k in range(1, 21)]
    taken = pairs.load_data(state, rows).responses.texts
    assert len(set(taken[:8])) == 8 and taken[8:] == ["the soup is"] * 8
    state.config = replace(state.config, seed=1)
    assert pairs.load_data(state, rows).responses.texts[:8] != taken[:8]


def test_the_reference_s_log_probs_are_computed_once_for_each_pair():
    state, _ = pair_world()
    batch, counted = pairs.encode_batch(state, PAIRS[:10]), []
    real = state.models.reference.forward

    def forward(*arguments, **more):
        counted.append(len(more["input_ids"]))
        return real(*arguments, **more)

    with patch.object(state.models.reference, "forward", forward):
        pairs.fill_reference(state, batch, torch.tensor([5, 6]))
        assert sum(counted) == 8 and int(batch.ref_logprobs.isnan().sum()) == 12
        for rows in ([9, 0], [3, 7, 8], [1, 2]):
            pairs.fill_reference(state, batch, torch.tensor(rows))
    assert sum(counted) == 20
    tokens = batch.responses.tokens()
    close(batch.ref_logprobs, direct.sequence_logprobs(state.models.reference, *tokens), 1e-5)


def test_fresh_pairs_are_labelled_by_the_difference_of_their_scores():
    labels = pairs.label_pairs(torch.tensor([1.0, 0.0, -1.0, 3.0]))
    close(labels, torch.tensor([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(3))]))


# --- training -------------------------------------------------------------------------------------


def small_run(config=SMALL, models=None, **more):
    more |= {"pairs": PAIRS[:12], "prompts": ["the soup", "i read"]}
    return direct.train_direct(config, models or tiny_models(), **more)


def test_training_raises_the_accuracy_of_pairs_it_has_not_seen():
    models = tiny_models()
    reference, actor, critic = map(fingerprint, (models.reference, models.actor, models.critic))
    history = list(small_run(replace(SMALL, minibatch_size=4), models))
    assert fingerprint(models.reference) == reference and fingerprint(models.critic) == critic
    assert fingerprint(models.actor) != actor
    state = start_run(SMALL, models, prompts=["the soup"])
    found = direct.evaluate_pairs(state, PAIRS[12:])
    assert found["accuracy"] == 1 and found["loss"] < 0.6
    assert abs(history[0]["kl"]) < 1e-4 and history[-1]["kl"] != 0
    assert history[0]["loss"] == pytest.approx(math.log(2), abs=1e-4)
    assert [record["iteration"] for record in history] == list(range(1, 9))


def test_entropy_and_kl_are_those_of_the_sampled_tokens():
    sampled = torch.tensor([[-1.0, -2.0], [-3.0, 0.0]])
    mask = torch.tensor([[True, True], [True, False]])
    responses = Responses(*2 * [mask], mask.long(), mask, sampled, ["", ""])
    found = direct.compare(responses, torch.tensor([[-2.0, -2.0], [-5.0, 0.0]]))
    assert found == pytest.approx({"kl": 1.5, "entropy": 2.0})


def test_another_seed_is_another_run_and_a_run_by_epochs_counts_its_batches(tmp_path):
    assert strip(small_run(replace(SMALL, seed=1))) != strip(small_run())
    config = replace(SMALL, iterations=None, epochs=2, batch_size=5)
    assert len(list(small_run(config, save_dir=tmp_path))) == 5  # 24 of 25
    assert load_checkpoint(tmp_path, config, tiny_models()).iteration == 5


def test_resuming_with_other_pairs_or_settings_is_refused(tmp_path):
    run = small_run(replace(SMALL, checkpoint_every=1), save_dir=tmp_path)
    next(run), run.close()
    with pytest.raises(ValueError, match="kl_coef: got 0.1, wants 0.5 as saved"):
        load_checkpoint(tmp_path, replace(SMALL, kl_coef=0.1), tiny_models())
    state = load_checkpoint(tmp_path, models=tiny_models())
    with pytest.raises(ValueError, match="pairs: got other ones, wants those that the run"):
        next(direct.train_direct(state=state, pairs=PAIRS[:5]))


def pair_metrics(config):
    """What training on the pairs reports, without what depends on the policy's samples."""
    names = ("loss", "accuracy", "margin", "chosen_logprobs", "rejected_reward", "grad_norm")
    return [[record[name] for name in names] for record in small_run(config)]


TOGETHER = replace(SMALL, minibatch_size=4, micro_batch_size=1)


def in_a_process(folder):
    """One of two: its part of every batch."""
    torch.set_num_threads(1)
    found = pair_metrics(TOGETHER)
    if rank() == 0:
        (folder / "found.json").write_text(json.dumps(found))


@pytest.mark.slow
def test_two_processes_make_the_steps_of_one(tmp_path):
    launch(in_a_process, 2, tmp_path)
    found = json.loads((tmp_path / "found.json").read_text())
    close(torch.tensor(found), torch.tensor(pair_metrics(TOGETHER)), 1e-4, 1e-4)
