"""The one-parameter policy: its gradient is J's, and training arrives at the closed-form optimum."""

import pytest
import torch

from helpers.lessons.kl_beta.gaussian import SIGMA, gaussian_loss, peak_reward, train_gaussian
from helpers.theory.optimum import gaussian_objective, gaussian_optimum


@pytest.mark.parametrize("kl_coef", [0.0, 0.05, 0.5, 5.0])
@pytest.mark.parametrize("start", [-0.4, 0.0, 1.3])
def test_policy_gradient_is_the_gradient_of_the_closed_form_objective(kl_coef, start):
    exact_mean = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    (exact,) = torch.autograd.grad(gaussian_objective(exact_mean, kl_coef, sigma=SIGMA), exact_mean)
    mean = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(200_000, generator=generator, dtype=torch.float64)
    y = (start + SIGMA * noise).detach()
    loss, rewards = gaussian_loss(mean, y, peak_reward(y), kl_coef)
    (gradient,) = torch.autograd.grad(loss, mean)
    assert -gradient.item() == pytest.approx(exact.item(), abs=0.05 * (1 + abs(exact.item())))
    objective = float(gaussian_objective(start, kl_coef, sigma=SIGMA))
    assert rewards.mean().item() == pytest.approx(objective, abs=0.02 * (1 + kl_coef))


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
