"""The one-parameter policy: training arrives at the closed-form optimum."""

import pytest

from helpers.lessons.kl_beta.gaussian import SIGMA, train_gaussian
from helpers.theory.optimum import gaussian_optimum


@pytest.mark.parametrize("kl_coef", [0.0, 0.05, 0.5, 5.0])
def test_training_arrives_at_the_closed_form(kl_coef):
    run = train_gaussian(kl_coef)
    assert run.means[0] == 0
    late = sum(run.means[-30:]) / 30
    assert late == pytest.approx(gaussian_optimum(kl_coef, sigma=SIGMA), abs=0.03)


def test_the_wrong_sign_runs_away_and_a_large_beta_hides_it_on_the_wrong_side():
    def wrong(y):
        return 2 * (y - 1).square()

    assert train_gaussian(0.05, wrong, steps=60).means[-1] < -50
    # J'(m) = 4(m − 1) − (β/σ²)·m is 0 at −4/(β/σ² − 4)
    assert train_gaussian(5.0, wrong).means[-1] == pytest.approx(-0.25, abs=0.1)
