"""The band of lesson 06: how it is made, whom it accuses, and which functions train."""

import random

import numpy as np
import pytest
import torch

from helpers.kit.recorded import trainer_config
from helpers.kit.report import CORRECT, MISTAKE
from helpers.lessons.your_trainer import band as band_of
from helpers.lessons.your_trainer.checks import COURSE, EXERCISES, check_trainer, forward_logprobs
from tests.notebooks.exercises import NOTEBOOKS, read

(LESSON,) = (path for path in NOTEBOOKS if path.stem == "06_your_trainer")
SMALL = {"iterations": 2, "batch_size": 4, "minibatch_size": 4, "response_length": 6}
REWARDS, TRAIN = EXERCISES["total_rewards"], EXERCISES["train"]
WRONG = REWARDS.compiled(REWARDS.solution.replace("-kl_coef", "kl_coef"))


@pytest.fixture(scope="module")
def band():
    return band_of.load_band()


def test_a_running_mean_is_over_the_last_five():
    assert band_of.smooth([0.0, 2.0, 4.0, 6.0, 8.0, 10.0]).tolist() == [0, 1, 2, 3, 4, 6]


def test_the_band_is_of_twenty_runs_and_accuses_few_others(band):
    """A right trainer on a seed that the band has not seen."""
    assert len(band_of.recorded_runs("band")) == 20
    others = band_of.recorded_runs("other")
    outside = [run["seed"] for run in others if band_of.first_exit(run, band)]
    assert len(others) >= 20 and len(outside) <= 0.02 * len(others), outside
    for run in [*others, *band_of.recorded_runs("band")]:  # lesson 06: not two thirds of the way
        farthest = max(float(away.abs().max()) for away in band.distance(run).values())
        assert farthest < 2 / 3 * band.width


def test_what_leaves_first_is_named(band):
    run = band_of.recorded_runs("band")[0]
    assert band_of.check_curve(run, band).status == CORRECT
    high = run | {"kl": [x + (50.0 if t >= 6 else 0.0) for t, x in enumerate(run["kl"])]}
    assert band_of.first_exit(high, band) == ("kl", 7, "above")
    low = high | {"score": [x - (50.0 if t >= 3 else 0.0) for t, x in enumerate(run["score"])]}
    assert band_of.first_exit(low, band) == ("score", 4, "below")
    report = band_of.check_curve(low, band)
    assert report.status == MISTAKE and "below the band at iteration 4" in report.message
    assert band_of.first_exit(run | {"kl": [float("nan")] * len(run["kl"])}, band)[1] == 1


def test_the_recorded_runs_are_the_course_s_own():
    """The first iteration again; recorded anew when the models in data/ are."""
    (recorded, *_) = band_of.recorded_runs("band")
    again = band_of.run_trainer(config=trainer_config(iterations=1))
    assert again["score"][0] == pytest.approx(recorded["score"][0], abs=2e-3)
    assert abs(again["kl"][0]) < 1e-4 and abs(recorded["kl"][0]) < 1e-4


def test_functions_of_the_learner_are_called_and_put_back():
    called = []

    def draw_prompts(prompts, batch_size):
        called.append(batch_size)
        return prompts[:batch_size]

    before = COURSE["train"].__globals__["draw_prompts"]
    run = band_of.run_trainer({"draw_prompts": draw_prompts}, config=trainer_config(**SMALL))
    assert called == [4, 4] and len(run["score"]) == 2
    assert COURSE["train"].__globals__["draw_prompts"] is before


def test_a_trainer_s_wrong_function_is_explained_and_replaced(capsys):
    train = TRAIN.compiled(TRAIN.solution)
    assert check_trainer([WRONG, train]) == COURSE | {"train": train}
    said = capsys.readouterr().out
    assert said.startswith("yours: train\n") and "✗ total_rewards" in said


def test_a_run_is_compared_with_the_course_s_of_its_seed():
    config = trainer_config(**SMALL)
    run = band_of.run_trainer(config=config)
    assert band_of.beside_course(run, COURSE, config) == "This is the course's own run."
    mine = COURSE | {"draw_prompts": lambda prompts, size: COURSE["draw_prompts"](prompts, size)}
    run = band_of.run_trainer(mine, config=config)
    assert "those of the course's own run, to 1e-4" in band_of.beside_course(run, mine, config)
    run["kl"][1] += 1e-3
    assert band_of.beside_course(run, mine, config).endswith("the kl of iteration 2.")


@pytest.mark.parametrize(
    "draw", (random.sample, lambda prompts, n: np.random.choice(prompts, n, False))
)
def test_a_seed_fixes_a_run_whoever_draws_the_prompts(draw):
    functions = {"draw_prompts": lambda prompts, batch_size: list(draw(prompts, batch_size))}
    configs = [trainer_config(**SMALL | {"iterations": 1, "seed": k}) for k in (1000, 1000, 1001)]
    runs = [band_of.run_trainer(functions, config) for config in configs]
    one, same, other = (run["score"] for run in runs)
    assert one == same != other


@pytest.mark.nightly
def test_a_rate_that_is_not_annealed_stays_in_the_band_and_goes_on_rising(band):
    """Lesson 06 says so: in the band on four seeds of four, further than it over 60 iterations on three."""
    known = {"train": TRAIN.compiled(TRAIN.solution.replace(" * left", ""))}
    for seed in (1000, 1001, 1002, 1003):
        run = band_of.run_trainer(known, trainer_config(seed=seed))
        assert band_of.first_exit(run, band) is None
    for seed in (1000, 1001, 1002):
        run = band_of.run_trainer(known, trainer_config(seed=seed, iterations=60))
        score, kl = (torch.tensor(run[name][-5:]).mean() for name in band_of.CURVES)
        assert score > 1.65 and kl > 4.5


@pytest.mark.nightly
@pytest.mark.parametrize("seed", (1000, 1001, 1002))
def test_wrong_rewards_leave_the_band(band, seed):
    wrong = band_of.run_trainer({"total_rewards": WRONG}, trainer_config(seed=seed))
    assert band_of.first_exit(wrong, band)[::2] == ("kl", "above")


@pytest.mark.nightly
def test_a_masked_stop_token_leaves_the_band_on_some_seeds_only(band):
    """Lesson 06 says so: on two of seven further seeds; here one of each kind."""
    (theirs,) = (cell.source for cell in read(LESSON).cells if "def anna_s_update" in cell.source)
    known = {"torch": torch, "forward_logprobs": forward_logprobs}
    exec(theirs, known)  # noqa: S102 (the lesson's own cell)
    anna = {"update": known["anna_s_update"]}
    runs = {k: band_of.run_trainer(anna, trainer_config(seed=k)) for k in (1001, 1006)}
    assert band_of.first_exit(runs[1001], band) is None
    assert band_of.first_exit(runs[1006], band) == ("kl", 11, "above")
