"""An interrupt inside a gradient step: raised, and after the step."""

import os
import signal

import pytest
import torch

from helpers.state import Adam
from helpers.tools.interrupts import interrupts_wait


class CutInTwo(Adam):
    """Interrupted between the first and the second entry of its state, as a user may do it."""

    def _init_group(self, group, *lists):
        os.kill(os.getpid(), signal.SIGINT)
        return super()._init_group(group, *lists)


@pytest.fixture(autouse=True)
def interrupts():
    """Ctrl-C raises, also where tests were started in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_in_adam_s_first_step_comes_when_the_step_is_whole():
    weight = torch.zeros(3, requires_grad=True)
    weight.grad = torch.ones(3)
    optimizer = CutInTwo([weight], lr=0.1)
    with pytest.raises(KeyboardInterrupt):
        optimizer.step()
    assert set(optimizer.state[weight]) == {"step", "exp_avg", "exp_avg_sq"}
    torch.testing.assert_close(weight.detach(), torch.full((3,), -0.1))


def test_the_handler_is_the_one_from_before_also_after_an_error():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), interrupts_wait():
        1 / 0  # noqa: B018
    assert signal.getsignal(signal.SIGINT) is before
    seen = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    with interrupts_wait():
        os.kill(os.getpid(), signal.SIGINT)
        assert not seen
    assert seen == [signal.SIGINT]
