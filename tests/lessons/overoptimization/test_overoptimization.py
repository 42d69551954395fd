"""Over-optimisation: peaks and turning points against definitions; the sliders."""

import math
from functools import partial
from itertools import product

import pytest
import torch

from helpers.lessons.overoptimization.checks import check_edit_effect, check_keep_best
from helpers.lessons.overoptimization.study import BASE, load_reward_studies
from helpers.lessons.overoptimization.turning import (
    band,
    smooth,
    turning_point,
    value_at,
)
from helpers.lessons.overoptimization.widgets import Gallery, judged_html
from helpers.studies.runs import WATCHED_PROMPTS, Run
from helpers.world.gold import gold_score


def history(gold, kl=None, proxy=None) -> list[dict]:
    """Records with these columns; KL and proxy count up by one where they are not given."""
    up = range(len(gold))
    rows = zip(gold, kl or up, proxy or up, strict=True)
    return [{"gold": float(g), "kl": float(k), "score": float(p)} for g, k, p in rows]


def test_smoothing_is_the_mean_of_the_neighbours_there_are():
    values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0]
    assert smooth(values, 1) == values
    assert smooth(values, 3)[0] == 2.0 and smooth(values, 3)[3] == pytest.approx(10 / 3)
    wide = smooth(values, 5)
    assert wide[2] == pytest.approx(14 / 5) and wide[-1] == pytest.approx(16 / 3)
    assert smooth([2.0] * 9, 5) == [2.0] * 9
    with pytest.raises(ValueError, match="width"):
        smooth(values, 0)


def test_the_turn_is_at_the_highest_gold_and_says_what_was_lost():
    turn = turning_point(history([0, 1, 3, 2, -1]), width=1)
    assert (turn.iteration, turn.kl, turn.gold, turn.proxy) == (3, 2.0, 3.0, 2.0)
    assert (turn.last_gold, turn.last_proxy, turn.lost) == (-1.0, 4.0, 4.0)


def test_one_lucky_iteration_is_no_turn():
    gold = [0.0] * 20
    gold[3], gold[10:15] = 4.0, [2.0] * 5
    assert turning_point(history(gold), width=1).iteration == 4
    assert turning_point(history(gold), width=5).iteration == 13


def test_a_value_is_read_between_two_iterations_along_the_root_of_kl():
    flat = [{"kl": 4.0, "gold": 7.0, "score": 1.0}] * 9
    assert value_at(flat, 1.0) == 7.0 and math.isnan(value_at(flat, 2.1))
    run = history([0] * 5 + [10] * 5, kl=[0] * 5 + [25] * 5)  # smoothed: both rise together
    assert value_at(run, 5.0) == pytest.approx(10) and 0 < value_at(run, 2.0) < 4.0


def test_a_band_ends_where_the_first_run_ends_and_is_in_the_units_asked_for():
    near, far = (
        history([g] * 20, kl=[0.05 * k * top for k in range(20)], proxy=[2.0] * 20)
        for g, top in ((3.0, 1.0), (5.0, 9.0))
    )
    made = band([near, far], start=(1.0, 0.0), std=(2.0, 1.0))
    mean, low, high = made["gold"]
    assert float(made["d"].max()) < 1.0  # √0.95, where the nearer run ends
    assert mean.tolist() == pytest.approx([1.5] * len(mean))
    assert low.tolist() == pytest.approx([1.0] * len(mean))
    assert high.tolist() == pytest.approx([2.0] * len(mean))
    assert made["score"][0].tolist() == pytest.approx([2.0] * len(mean))


def test_the_best_of_n_is_what_all_draws_keep_on_average_ties_shared():
    scores, gold = torch.tensor([[0.0, 2.0, 1.0, 2.0]]), torch.tensor([[1.0, -1.0, 0.5, 4.0]])
    chance = torch.zeros(4)
    for drawn in product(range(4), repeat=3):
        best = {i for i in drawn if scores[0, i] == scores[0, list(drawn)].max()}
        equal = [1, 3] if best & {1, 3} else list(best)  # which of two that tie is a matter of lot
        chance[equal] += 1 / 4**3 / len(equal)
    found = check_keep_best.exercise.right(scores, gold, 3)
    kl = (chance * (4 * chance).log()).sum()
    expected = chance[None], (chance * scores).sum(), (chance * gold).sum(), kl
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y)


def test_the_effect_of_an_edit_is_that_of_paired_differences():
    before = torch.tensor([0.0, 10.0, -20.0, 30.0])
    change = torch.tensor([1.0, 2.0, 3.0, 2.0])
    mean, error = check_edit_effect.exercise.right(before, before + change).tolist()
    assert mean == pytest.approx(2.0) and error == pytest.approx((2 / 3) ** 0.5 / 2)


@pytest.fixture(scope="module")
def run() -> Run:
    return load_reward_studies().run(BASE)


explain = partial(gold_score, explain=True)


def test_the_gallery_shows_the_samples_of_its_iteration(run):
    gallery = Gallery(run, explain)
    assert "After 0 iterations" in gallery.message.value
    gallery.controls["shot"].value = 2
    assert f"After {run.snapshots[2].iteration} iterations" in gallery.message.value
    gallery.controls["prompt"].value = WATCHED_PROMPTS[1]
    sample = run.snapshots[2].samples[WATCHED_PROMPTS[1]][0]
    assert f"proxy <b>{sample.score:+.2f}</b>" in gallery.message.value
    assert f"{explain(sample.text)[1][0][1]:+.2f}" in gallery.message.value
    assert "nowrap" not in gallery.message.value  # a long ledger wraps, on a narrow page too


def test_the_gallery_escapes_and_shows_its_errors(run):
    sample = run.snapshots[0].samples[WATCHED_PROMPTS[0]][0]
    hostile = judged_html(sample, WATCHED_PROMPTS[0], lambda text: (0.0, [("<script>", -1.0)]))
    assert "<script>" not in hostile
    gallery = Gallery(run, lambda text: 1 / 0)
    assert "ZeroDivisionError" in gallery.message.value
