"""The live trainer without a browser: what its buttons do, and what it leaves when something goes wrong."""

import re
import threading
import time

import pytest

from helpers.kit.figures import training_curves
from helpers.lessons.kl_beta.live_trainer import LiveTrainer, Stopped

SMALL = {"batch_size": 8, "response_length": 6, "normalizer_samples": 16}


def count_words(texts: list[str]) -> list[float]:
    return [float(len(text.split())) for text in texts]


@pytest.fixture
def trainer():
    made = LiveTrainer({"words": count_words}, **SMALL, seed=1)
    made.iterations.value = 3
    yield made
    made.stop()
    made.wait(60)


def test_it_trains_to_the_end_and_keeps_the_run(trainer):
    heard = []
    trainer.on_run = heard.append
    trainer.train_button.click()
    run = trainer.wait(120)
    assert [record["iteration"] for record in run.history] == [1, 2, 3]
    assert trainer.runs == [run] and {id(one) for one in heard} == {id(run)}
    assert "3/3" in trainer.bar.value and "done" in trainer.bar.value
    assert bytes(trainer.curves.value).startswith(b"\x89PNG")
    assert not trainer.running and not trainer.train_button.disabled
    assert trainer.stop_button.disabled


def test_stop_ends_the_thread_and_keeps_what_there_is(trainer):
    trainer.iterations.value = 100
    before = threading.active_count()
    trainer.start()
    end = time.monotonic() + 120
    while not re.search(r"\b[1-9]\d*/100", trainer.bar.value):
        assert time.monotonic() < end
        time.sleep(0.05)
    trainer.stop_button.click()
    run = trainer.wait(30)
    assert 1 <= len(run.history) < 100
    assert "stopped" in trainer.bar.value and f"{len(run.history)}/100" in trainer.bar.value
    assert threading.active_count() == before


@pytest.mark.parametrize("stopped", [False, True])
def test_the_last_iteration_is_drawn_however_the_run_ends(trainer, monkeypatch, stopped):
    """Even if nothing was drawn on the way, since the drawings are half a second apart."""
    drawn = []

    def curves(history, total):
        drawn.append(([record["iteration"] for record in history], total))
        return training_curves(history, total)

    def halt(step, **tensors):  # in the third iteration
        if stopped and step == 3 and "2/3" in trainer.bar.value:
            raise Stopped

    monkeypatch.setattr("helpers.lessons.kl_beta.live_trainer.PATIENCE", 1e9)
    monkeypatch.setattr("helpers.lessons.kl_beta.live_trainer.training_curves", curves)
    monkeypatch.setattr(trainer, "_check_stop", halt)
    trainer.start()
    done = [record["iteration"] for record in trainer.wait(120).history]
    assert done == ([1, 2] if stopped else [1, 2, 3])
    assert drawn == [(done, 3)]


def test_a_second_training_is_refused_while_one_runs(trainer):
    trainer.iterations.value = 100
    trainer.start()
    with pytest.raises(ValueError, match="second training"):
        trainer.start()
    trainer.stop()


@pytest.mark.parametrize(
    "reward, words",
    [
        (lambda texts: [float("nan")] * len(texts), "NaN"),
        (lambda texts: [0.0], "scores"),
        (lambda texts: texts.shape, "AttributeError"),
    ],
)
def test_a_bad_reward_function_is_told_on_the_page(reward, words):
    trainer = LiveTrainer({"bad": reward}, **SMALL)
    trainer.start()
    assert trainer.wait(60) is None
    assert words in trainer.bar.value and not trainer.train_button.disabled


def test_a_listener_hears_the_run_while_it_grows_and_at_its_end(trainer, monkeypatch):
    monkeypatch.setattr("helpers.lessons.kl_beta.live_trainer.PATIENCE", 0.0)
    heard = []
    trainer.on_run = lambda run: heard.append((len(run.history), trainer.running))
    trainer.start()
    trainer.wait(120)
    assert heard == [(1, True), (2, True), (3, True), (3, True)]


def test_a_listener_that_fails_does_not_lose_the_run(trainer):
    def fail(run):
        raise RuntimeError("the explorer is gone")

    trainer.on_run = fail
    trainer.start()
    assert len(trainer.wait(120).history) == 3
    assert "the explorer is gone" in trainer.bar.value
