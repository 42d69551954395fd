"""The one-parameter policy: training arrives at the closed-form optimum."""

import pytest
import torch

from helpers.lessons.kl_beta.checks import check_best_mean
from helpers.lessons.kl_beta.gaussian import SIGMA, gaussian_objective, train_gaussian

best_mean = check_best_mean.exercise.right


@pytest.mark.parametrize("kl_coef", [0.0, 0.05, 0.5, 5.0])
def test_training_arrives_at_the_closed_form(kl_coef):
    run = train_gaussian(kl_coef)
    assert run.means[0] == 0
    late = sum(run.means[-30:]) / 30
    assert late == pytest.approx(best_mean(kl_coef, SIGMA), abs=0.03)


def test_the_wrong_sign_runs_away_and_a_large_beta_hides_it_on_the_wrong_side():
    def wrong(y):
        return 2 * (y - 1).square()

    assert train_gaussian(0.05, wrong, steps=60).means[-1] < -50
    # J'(m) = 4(m − 1) − (β/σ²)·m is 0 at −4/(β/σ² − 4)
    assert train_gaussian(5.0, wrong).means[-1] == pytest.approx(-0.25, abs=0.1)


@pytest.mark.parametrize("sigma", [0.5, 0.3, 2.0])
@pytest.mark.parametrize("kl_coef", [0.0, 0.05, 0.5, 5.0])
def test_the_best_mean_is_the_top_of_the_objective(kl_coef, sigma):
    means = torch.linspace(-4, 4, 80_001, dtype=torch.float64)
    top = means[gaussian_objective(means, kl_coef, sigma).argmax()]
    assert best_mean(kl_coef, sigma) == pytest.approx(float(top), abs=1e-4)


@pytest.mark.parametrize("sigma", [0.5, 0.3, 2.0])
def test_the_objective_is_the_mean_of_reward_minus_beta_log_ratio(sigma):
    mean, kl_coef = 0.7, 0.8
    y = mean + sigma * torch.randn(
        200_000, generator=torch.Generator().manual_seed(0), dtype=torch.double
    )
    policy, reference = (torch.distributions.Normal(m, sigma) for m in (mean, 0.0))
    sampled = -((y - 1) ** 2) - kl_coef * (policy.log_prob(y) - reference.log_prob(y))
    stderr = sampled.std().item() / len(y) ** 0.5
    assert abs(sampled.mean().item() - gaussian_objective(mean, kl_coef, sigma)) < 4 * stderr
