"""One-token responses: the table is what PPO is paid, and the distance to π* is exact."""

import pytest
import torch
from conftest import tiny_models

from helpers.state import RLHFState, start_run
from helpers.steps import generate_responses, iterate, score_responses
from helpers.studies import one_token
from helpers.studies.one_token import OneTokenWorld, load_one_token, settings, train
from helpers.studies.runs import WATCHED_PROMPTS
from helpers.theory.optimum import gibbs_policy
from helpers.tools.files import FileProblem

SMALL = {"batch_size": 64, "minibatch_size": 32}


@pytest.fixture(scope="module")
def state() -> RLHFState:
    """The shipped models on the prompts that are watched."""
    return start_run(settings(0.3, iterations=24, **SMALL), prompts=list(WATCHED_PROMPTS))


@pytest.fixture(scope="module")
def world(state) -> OneTokenWorld:
    return one_token.enumerate_world(state)


def test_the_table_is_what_the_loop_pays(state, world):
    responses = generate_responses(state, world.prompts * 30)
    paid, listed = score_responses(state, responses), world(responses.texts)
    assert float((paid - listed).std()) < 1e-5
    rows = torch.arange(len(world.prompts)).repeat(30)
    cells = world.scores[rows, responses.response_tensors[:, 0]].float()
    assert torch.allclose(listed, cells, atol=1e-6)


def test_a_special_token_leaves_no_trace(state, world):
    tokenizer = state.models.tokenizer
    (texts,) = one_token.one_token_texts(tokenizer, ["the food was"], world.scores.shape[1])
    for token in tokenizer.all_special_ids:
        assert texts[token] == "the food was"
    others = set(range(len(texts))) - set(tokenizer.all_special_ids)
    assert len({texts[token] for token in others}) == len(others)
    specials = world.scores[:, tokenizer.all_special_ids]
    assert torch.equal(specials.amin(dim=1), specials.amax(dim=1))


def test_it_is_centred_and_the_optimum_does_not_notice(world):
    assert abs(float((world.ref_probs * world.scores).sum(dim=1).mean())) < 1e-9
    optimum = gibbs_policy(world.ref_probs, world.scores, 0.3)
    assert torch.allclose(optimum, gibbs_policy(world.ref_probs, world.scores + 2, 0.3))


@pytest.fixture(scope="module")
def trained(state, world):
    start = one_token.start_one_token(world, state.config)
    *_, run = train(world, start, critic_first=4, every=3)
    return run


def test_a_short_training_comes_much_nearer(trained):
    distance = [point["distance"] for point in trained.curve]
    assert trained.curve[0]["iteration"] == 0 and trained.curve[-1]["iteration"] == 24
    assert distance[1] == pytest.approx(distance[0], abs=1e-6)  # the critic went first
    assert distance[-1] < 0.5 * distance[0]
    for point in trained.curve:
        missing = point["optimal_value"] - point["value"]
        assert missing == pytest.approx(0.3 * point["distance"], abs=1e-5)
    assert 0 <= trained.curve[-1]["untried"] < trained.curve[0]["untried"]


def test_it_is_the_loop_s_own_training(world):
    config = settings(0.3, iterations=2, **SMALL)
    start = lambda: start_run(config, tiny_models(reward=world), prompts=world.prompts)  # noqa: E731
    *_, run = train(world, start(), critic_first=0)
    state = start()
    for k in range(2):
        state.config = one_token.settings_at(config, k, critic_first=0)
        iterate(state)
    found = one_token.next_token_probs(state, state.models.actor)
    rows = [world.prompts.index(prompt) for prompt in run.watched]
    assert torch.allclose(found[rows].float(), run.tensors["probs"], atol=1e-6)


def test_saved_and_loaded_it_is_the_same_run_and_a_broken_folder_is_told(trained, tmp_path):
    one_token.save_one_token(trained, tmp_path, {"command": "a test"})
    again = load_one_token(tmp_path)[0.3]
    assert again.config == trained.config and again.watched == trained.watched
    assert again.critic_first == 4
    for point, other in zip(again.curve, trained.curve, strict=True):
        assert point == pytest.approx(other, rel=1e-4, abs=1e-9)
    assert all(torch.equal(again.tensors[name], x) for name, x in trained.tensors.items())
    tensors = tmp_path / "beta_0.3_seed_0" / one_token.TENSORS
    tensors.write_bytes(tensors.read_bytes()[:-9])
    with pytest.raises(FileProblem, match="cut short"):
        load_one_token(tmp_path)


def test_the_shipped_runs_give_their_numbers_again_and_are_as_near_as_they_are_said_to_be():
    shipped = load_one_token()
    assert set(shipped) == set(one_token.BETAS)
    for beta, run in shipped.items():
        table = [run.tensors[name].double() for name in ("probs", "ref_probs", "scores")]
        table[:2] = [x / x.sum(dim=1, keepdim=True) for x in table[:2]]
        rows = [run.prompts.index(prompt) for prompt in run.watched]
        again = one_token.measure_exactly(*table, beta)["distance"].float()
        assert torch.allclose(again, run.tensors["distance"][rows], atol=1e-4, rtol=1e-3)
        mean = float(run.tensors["distance"].mean())
        assert mean == pytest.approx(run.curve[-1]["distance"], rel=1e-3)
        assert run.config.kl_coef == beta
        assert run.config.batch_size == 512 and run.config.iterations <= 200
        assert run.curve[-1]["distance"] < 0.5 * run.curve[0]["distance"]
    assert max(shipped[beta].curve[-1]["distance"] for beta in (0.3, 1.0)) <= 0.02
