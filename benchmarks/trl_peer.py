"""TRL's PPOTrainer (trl 1.12.0, `trl.experimental.ppo`) on the benchmark's work, timed by phase."""

import tempfile
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from types import SimpleNamespace

import torch
from transformers import GPT2ForSequenceClassification

from benchmarks.common import Span, now, phases
from benchmarks.models import (
    LEARNING_RATE,
    Size,
    gpt2_config,
    make_actor,
    make_tokenizer,
    prompt_ids,
    run_config,
)
from benchmarks.trl_ppo import trl_config

TRUNKS = {"policy": "policy_model", "critic": "value_model", "reference": "ref_model"}
TRUNKS |= {"reward": "reward_model"}


def make_trainer(size: Size, minibatch: int, iterations: int):
    """A trainer of `iterations` iterations, with its own optimizer and no stop token."""
    settings = {"iterations": iterations, "critic_learning_rate": LEARNING_RATE}
    own = {"use_cpu": True, "stop_token": None, "optim": "adamw_torch_fused"}
    folder = tempfile.mkdtemp(prefix="trl")
    args = trl_config(run_config(size, minibatch, **settings), folder, **own)
    from datasets import Dataset
    from trl.experimental.ppo import PPOTrainer

    rows = Dataset.from_dict({"input_ids": prompt_ids(size).tolist()})
    heads = [GPT2ForSequenceClassification(gpt2_config(size, num_labels=1)) for _ in range(2)]
    return PPOTrainer(
        args=args,
        processing_class=make_tokenizer(size),
        model=make_actor(size),
        ref_model=make_actor(size),
        reward_model=heads[0],
        value_model=heads[1],
        train_dataset=rows,
        eval_dataset=rows,
    )


def trunks(trainer) -> dict:
    """The four transformers by role, for counting."""
    return {role: getattr(trainer, name).transformer for role, name in TRUNKS.items()}


class Stopwatch:
    """Times of one iteration: rollout until the reference runs, scoring until the first gradient.

    `gc` is what the trainer's own calls of `gc.collect` took; it lies inside the phases.
    """

    def __init__(self, trainer):
        self.iterations: list[dict[str, Span]] = []
        self.collections: list[Span] = []
        trainer.ref_model.register_forward_pre_hook(lambda *_: self._mark("scoring"))
        trainer.model.register_forward_pre_hook(lambda *_: self._train())
        self.start()

    def start(self) -> None:
        """An iteration begins."""
        self.began, self.marks, self.gc = now(), {}, 0 * now()

    def _mark(self, phase: str) -> None:
        self.marks.setdefault(phase, now())

    def _train(self) -> None:
        if torch.is_grad_enabled():  # GRPOTrainer's policy writes by the same forward
            self._mark("update")

    def stop(self) -> None:
        """An iteration ends: save its phases."""
        self.iterations.append(
            phases(self.began, self.marks["scoring"], self.marks["update"], now())
        )
        self.collections.append(self.gc)

    def contestants(self) -> dict[str, list[dict[str, Span]]]:
        """The trainer's iterations, and what is left without the collections where it forced some."""
        if not any(gc.any() for gc in self.collections):
            return {"TRL": self.iterations}
        pairs = zip(self.iterations, self.collections, strict=True)
        without = [{"total": one["total"] - gc} for one, gc in pairs]
        return {"TRL": self.iterations, "TRL without gc": without}

    @contextmanager
    def watching_gc(self):
        """Time the trainer's garbage collection."""
        import gc

        from trl.experimental.ppo import ppo_trainer

        def collect() -> int:
            began = now()
            found = gc.collect()
            self.gc = self.gc + (now() - began)
            return found

        ppo_trainer.gc = SimpleNamespace(collect=collect)
        try:
            yield
        finally:
            ppo_trainer.gc = gc


def train(trainer, watch: Stopwatch) -> None:
    """Run all iterations, without the trainer's printing."""
    with redirect_stdout(StringIO()), watch.watching_gc():
        watch.start()
        trainer.train()
