"""`python -m benchmarks.grpo_vs_trl`: one GRPO iteration of ours and of TRL's GRPOTrainer.

A model of SmolLM2-135M's shape and a GPT-2 of 49 million parameters, both with random weights, at the
same tokens: K responses to a prompt, each of its full length, one pass over them in one minibatch, the
KL as k3 in the loss, float32, one thread. Both train the same modules and call the same reward function.
TRL's trainer runs its own loop, one iteration of ours after each of its; peak memory of each in a
process of its own.
"""

import argparse
import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel

from benchmarks.common import emit, in_own_process
from benchmarks.models import (
    LEARNING_RATE,
    Size,
    make_actor,
    make_llama,
    make_tokenizer,
    prompt_texts,
)
from benchmarks.ppo_vs_trl import our_iteration, print_race, summarize
from benchmarks.scaling import AXES
from benchmarks.tokens import TokenCounter
from helpers.config import RLHFConfig
from helpers.models import make_reference
from helpers.scale.memory import KNOWN, MIB, peak_bytes
from helpers.scale.trl import trl_version
from helpers.scale.trl_groups import each_iteration, make_group_trainer, require_grpo, trl_at_work
from helpers.state import Models, RLHFState, start_run
from helpers.tools.command import exit_status
from helpers.tools.validate import require_count

SMOLLM2 = KNOWN["HuggingFaceTB/SmolLM2-135M"]
SIZES = {
    "SmolLM2-135M": Size(
        layers=SMOLLM2.num_hidden_layers,
        width=SMOLLM2.hidden_size,
        heads=SMOLLM2.num_attention_heads,
        vocabulary=SMOLLM2.vocab_size,
        prompt=16,
        response=48,
        batch=8,
    ),
    "GPT-2, 49 M": AXES["parameters"][-1],
}
WARM = 1  # warm-up iterations of each, not counted


def make_policy(name: str) -> PreTrainedModel:
    """The policy of this name, which never draws EOS or pad; GELU in one kernel, for both trainers."""
    return make_llama(SMOLLM2) if name == "SmolLM2-135M" else make_actor(SIZES[name], fused=True)


def count_sevens(texts: list[str]) -> list[float]:
    """The reward: how many words end in 7."""
    return [float(sum(word.endswith("7") for word in text.split())) for text in texts]


def make_config(size: Size, iterations: int) -> RLHFConfig:
    """Settings of both: GRPO as in Shao et al. 2024, four responses to a prompt, one pass, β = 0.1."""
    return RLHFConfig(
        device="cpu",
        method="grpo",
        responses_per_prompt=4,
        loss_aggregation="response",
        kl_placement="loss",
        kl_loss="k3",
        kl_coef=0.1,
        num_ppo_epochs=1,
        iterations=iterations,
        batch_size=size.batch,
        minibatch_size=size.batch,
        micro_batch_size=size.batch,
        response_length=size.response,
        normalize_scores=False,
        learning_rate=LEARNING_RATE,
    )


def make_run(actor: PreTrainedModel, size: Size, iterations: int) -> RLHFState:
    """The initial state of our run."""
    models = Models(actor, None, count_sevens, make_reference(actor), make_tokenizer(size))
    return start_run(make_config(size, iterations), models, prompts=prompt_texts(size))


@contextmanager
def trl_trainer(actor: PreTrainedModel, size: Size, iterations: int) -> Iterator:
    """TRL's trainer with the same settings; it loads its reference from a folder."""
    models = Models(actor, None, count_sevens, None, make_tokenizer(size))
    with trl_at_work(models) as folder:
        actor.save_pretrained(folder)
        actor.config._name_or_path = folder
        config = make_config(size, iterations)
        yield make_group_trainer(config, models, prompt_texts(size), folder)


def count_positions(policy: PreTrainedModel, reference: PreTrainedModel) -> TokenCounter:
    """A counter of the positions that go through each."""
    return TokenCounter({"policy": policy.base_model, "reference": reference.base_model})


def race(actor: PreTrainedModel, size: Size, rounds: int) -> dict:
    """Both in turn, `rounds` times after a warm-up: times of phases, and positions of an iteration."""
    from benchmarks.trl_peer import Stopwatch

    state, ours, tokens = make_run(copy.deepcopy(actor), size, WARM + rounds), [], {}
    with trl_trainer(actor, size, WARM + rounds) as trainer:
        models = state.models
        counters = {
            "TRL": count_positions(trainer.model, trainer.ref_model),
            "ours": count_positions(models.actor, models.reference),
        }

        def between(iteration: int) -> None:
            watch.stop()
            ours.append(our_iteration(state))
            tokens.update({name: counter.read() for name, counter in counters.items()})
            watch.start()

        trainer.add_callback(each_iteration(between, trainer.args.logging_steps))
        watch = Stopwatch(trainer)
        trainer.train()
    for taken in watch.iterations:
        del taken["gc"]  # this trainer collects no garbage by force
    return {"TRL": watch.iterations[WARM:], "ours": ours[WARM:], "tokens": tokens}


def alone(who: str, actor: PreTrainedModel, size: Size, iterations: int = 2) -> dict:
    """Peak memory of one of both in this process: before training, and after some iterations."""
    if who == "TRL":
        with trl_trainer(actor, size, iterations) as trainer:
            before = peak_bytes() / MIB
            trainer.train()
    else:
        state = make_run(actor, size, iterations)
        before = peak_bytes() / MIB
        for _ in range(iterations):
            our_iteration(state)
    return {"imported_MiB": before, "peak_MiB": peak_bytes() / MIB}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Command-line options; `--worker` is used by child processes only."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grpo_vs_trl", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="measured iterations of each (5)")
    parser.add_argument("--models", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--worker", choices=("race", "TRL", "ours"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    require_count("--rounds", options.rounds)
    return options


def work(name: str, worker: str, rounds: int) -> None:
    """Work of a child process: the race, or one of both alone."""
    torch.set_num_threads(1)
    actor, size = make_policy(name), SIZES[name]
    if worker == "race":
        emit("race", summarize(race(actor, size, rounds), size))
    else:
        emit("alone", alone(worker, actor, size))


def ask(name: str, worker: str, rounds: int) -> dict:
    """Run one part in a child process."""
    chosen = ("--models", name, "--worker", worker, "--rounds", rounds)
    return in_own_process("benchmarks.grpo_vs_trl", *chosen)


def run(arguments: list[str] | None) -> None:
    """Command line: a table for each model, then one JSON line."""
    options = parse(arguments)
    require_grpo()
    if options.worker:
        return work(options.models[0], options.worker, options.rounds)
    everything = {"trl": trl_version()}
    for name in options.models:
        facts = ask(name, "race", options.rounds)
        facts["memory"] = {who: ask(name, who, options.rounds) for who in ("TRL", "ours")}
        size = SIZES[name]
        work_of = f"{size.batch} responses of {size.response} tokens to prompts of {size.prompt}"
        print_race(facts, f"{name}, {work_of}")
        everything[name] = facts
    return emit("grpo_vs_trl", everything)


if __name__ == "__main__":
    sys.exit(exit_status(lambda: run(None), "Stopped."))
