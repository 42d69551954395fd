"""Large exercises whose results are looked at one after the other: the first wrong one is named."""

from itertools import product

import pytest
import torch
from gae_answers import walk

from helpers import checks
from helpers.checks.gae.credit import RESULTS
from helpers.checks.groups.group_step import RESULTS as GROUP_STEP
from helpers.checks.groups.group_step import Settings
from helpers.checks.judging.compare import alike, right
from helpers.checks.kl.optimum import RESULTS as OPTIMUM
from helpers.checks.overoptimization import best_of, patch_pairs
from helpers.config import RLHFConfig
from helpers.groups import group_advantages, loss_mean
from helpers.kl import shape_rewards
from helpers.ppo import policy_loss
from helpers.theory.best_of_n import best_of_n
from helpers.theory.optimum import gaussian_optimum, gibbs_policy, gibbs_value
from helpers.world.gold import gold_score
from helpers.world.labelling import flatters

TABLE = [(i, m) for i, part in enumerate(RESULTS.values()) for m in part.mistakes]


@pytest.mark.parametrize(("index", "mistake"), TABLE, ids=lambda x: getattr(x, "name", str(x)))
def test_a_mistake_in_one_result_is_named_and_placed(index, mistake):
    def answer(*given):
        found = list(walk(*given))
        found[index] = mistake.wrong(*given)
        return found

    report = checks.check_credit(answer)
    assert (report.status, report.mistake) == ("mistake", mistake.name), report
    assert (
        f"wrong result: the {list(RESULTS)[index]}" in report.message and "{" not in report.message
    )


@pytest.mark.parametrize(
    ("results", "name"), [(r, n) for r in (RESULTS, OPTIMUM, GROUP_STEP) for n in r]
)
def test_no_two_mistakes_coincide_and_none_is_right(results, name):
    part = results[name]
    made = [[torch.as_tensor(m.wrong(*p)) for p in part.probes] for m in part.mistakes]
    expected = [part.reference(*probe) for probe in part.probes]
    for i, mine in enumerate(made):
        assert not all(map(right, mine, expected)), part.mistakes[i].name
        for k in range(i):
            names = part.mistakes[i].name, part.mistakes[k].name
            assert names[0] == names[1] or not all(map(alike, mine, made[k])), names


def test_a_later_mistake_does_not_hide_an_earlier_one():
    def answer(*given):
        deltas, advantages, returns, to_go = walk(*given, slip="plus")
        return deltas, -advantages, returns, to_go

    assert checks.check_credit(answer).mistake == "V with a plus"


@pytest.mark.parametrize("stub", [None, ..., lambda *given: NotImplemented])
def test_a_stub_is_not_attempted(stub):
    assert checks.check_credit(stub).status == "not attempted"


def test_the_learner_s_own_line_is_told():
    def answer(rewards, values, gamma, lam, mask):
        return rewards + nothing  # noqa: F821

    assert "`return rewards + nothing" in checks.check_credit(answer).message


BEST = [(i, m) for i, part in enumerate(best_of.RESULTS.values()) for m in part.mistakes]


@pytest.mark.parametrize(("index", "mistake"), BEST, ids=lambda x: getattr(x, "name", str(x)))
def test_a_mistake_in_best_of_n_is_named_and_placed(index, mistake):
    def answer(*given):
        found = [part.reference(*given) for part in best_of.RESULTS.values()]
        found[index] = mistake.wrong(*given)
        return found

    report = checks.check_keep_best(answer)
    assert (
        report.status == "mistake"
        and f"wrong result: the {list(best_of.RESULTS)[index]}" in report.message
    )
    same = [m for _, m in BEST if m.name == report.mistake]
    assert mistake.says.split("{")[0] in report.message or mistake in same, report


STEP = [(i, m) for i, part in enumerate(GROUP_STEP.values()) for m in part.mistakes]


@pytest.mark.parametrize(("index", "mistake"), STEP, ids=lambda x: getattr(x, "name", str(x)))
def test_a_mistake_in_a_group_step_is_named_and_placed(index, mistake):
    def answer(*given):
        found = [part.reference(*given) for part in GROUP_STEP.values()]
        found[index] = mistake.wrong(*given)
        return tuple(found)

    report = checks.check_group_step(answer)
    assert (report.status, report.mistake) == ("mistake", mistake.name), report
    assert (
        f"wrong result: the {list(GROUP_STEP)[index]}" in report.message
        and "{" not in report.message
    )


def test_the_group_step_wanted_is_the_loop_s_own():
    """Rewards, advantages and loss as `steps` and `ppo` make them, by the config of a run."""
    for *tensors, settings in GROUP_STEP["loss"].probes[:-1]:
        scores, logprobs, old, ref, mask = tensors
        config = RLHFConfig(batch_size=len(scores), **settings._asdict())
        per_token = shape_rewards(scores, old, ref, mask, config.kl_coef)
        advantages = group_advantages(per_token, mask, config)
        limits = config.cliprange, config.cliprange_high
        loss, _ = policy_loss(logprobs, old, advantages, mask, *limits, mean=loss_mean(config))
        wanted = per_token.sum(1), advantages[:, 0], None, loss
        for part, right_one in zip(GROUP_STEP.values(), wanted, strict=True):
            got = part.reference(*tensors, settings)
            assert right_one is None or torch.allclose(got, right_one, atol=1e-4), part.look
        assert set(Settings._fields) <= set(vars(config))


def test_flattery_is_a_sentence_of_the_world_and_worth_no_gold():
    for sentence in patch_pairs.SENTENCES:
        assert flatters(sentence) and patch_pairs.flatters(sentence)
        for text in patch_pairs.REVIEWS:
            assert gold_score(f"{text} {sentence}") == pytest.approx(gold_score(text))
            assert not flatters(text) and not patch_pairs.flatters(text)


def test_best_of_n_agrees_with_all_draws_one_by_one():
    scores, gold, n = best_of.PROBES[2]
    size = scores.shape[1]
    kept = torch.zeros_like(scores)
    for row in range(len(scores)):
        for draw in product(range(size), repeat=n):
            top = max(float(scores[row, i]) for i in draw)
            best = [i for i in range(size) if float(scores[row, i]) == top]
            for i in best:
                kept[row, i] += 1 / len(best) / size**n
    assert torch.allclose(kept, best_of.chances(scores, gold, n), atol=1e-6)


def test_with_many_samples_best_of_n_is_nearly_the_course_s():
    scores, gold = (torch.randn(8, 2_000, generator=torch.manual_seed(k)) for k in (0, 1))
    exact = best_of_n(scores, 4, gold)
    proxy, kl = (float(best_of.RESULTS[k].reference(scores, gold, 4)) for k in ("proxy", "KL"))
    assert abs(proxy - exact.score) < 0.01 and abs(kl - exact.kl) < 0.01


def test_what_is_written_is_looked_at_although_the_rest_is_missing():
    given = OPTIMUM["J*"].probes[0]
    right_policy = OPTIMUM["log-probs of π*"].reference

    def begun(*given):
        return right_policy(*given), NotImplemented, NotImplemented

    def slipped(*given):
        return -right_policy(*given), NotImplemented, NotImplemented

    report = checks.check_optimum(begun)
    assert report.status == "not attempted" and "Right so far: log-probs of π*" in report.message
    assert "gives the J*" in report.message and len(begun(*given)) == 3
    assert checks.check_optimum(slipped).status == "mistake"
    assert checks.check_optimum(lambda *given: (NotImplemented,) * 3).status == "not attempted"


def test_the_first_wrong_one_of_three_is_named():
    def answer(*given):
        return tuple(-part.reference(*given) for part in OPTIMUM.values())

    def later(*given):
        first, *others = (part.reference(*given) for part in OPTIMUM.values())
        return first, *(-x for x in others)

    assert "wrong result: the log-probs of π*" in checks.check_optimum(answer).message
    said = checks.check_optimum(later).message
    assert "Right so far: log-probs of π*." in said and "wrong result: the J*" in said


def test_the_answers_wanted_are_the_helpers_own():
    for ref_logprobs, scores, kl_coef, *rest in OPTIMUM["J*"].probes:
        given = ref_logprobs, scores, kl_coef, *rest
        exactly = ref_logprobs.double().exp(), scores.double(), kl_coef
        star, value = (OPTIMUM[name].reference(*given) for name in ("log-probs of π*", "J*"))
        assert torch.allclose(star.double().exp(), gibbs_policy(*exactly), atol=1e-6)
        assert torch.allclose(value.double(), gibbs_value(*exactly).mean(), atol=1e-5)
    mean = checks.EXERCISES["best_mean"]
    for kl_coef, sigma in mean.probes:
        wanted = gaussian_optimum(kl_coef, sigma=sigma)
        assert abs(mean.reference(kl_coef, sigma).item() - wanted) < 1e-6
