"""`python -m benchmarks.ppo_vs_trl`: one PPO iteration of ours and of TRL's PPOTrainer on the same work.

They take turns in one process (TRL, ours, the floors, TRL, …), so that a busy moment meets all; peak memory
of each in a process of its own. With `--grpo` one GRPO iteration of two models, beside TRL's GRPOTrainer.
"""

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
from transformers import PreTrainedModel

from benchmarks.common import Span, TokenCounter, command, emit, in_own_process, now, phases, show
from benchmarks.floor import Floor
from benchmarks.models import (
    Size,
    make_actor,
    make_llama,
    make_run,
    make_tokenizer,
    prompt_texts,
    run_config,
)
from benchmarks.trl_ppo import Stopwatch, make_peer, train_peer
from benchmarks.trl_trainers import each_iteration
from helpers.config import RLHFConfig
from helpers.models import make_reference
from helpers.scale.memory import KNOWN, MIB, peak_bytes
from helpers.scale.trl_groups import make_group_trainer, require_grpo, trl_at_work, trl_version
from helpers.state import Models, RLHFState, start_run
from helpers.steps import iterate
from helpers.tools.flags import setting

PHASES = ("rollout", "scoring", "update", "total")
FLOORS = {"floor": True, "floor, default GELU": False}  # whether it is fused, as in the course
WARM, GRPO_WARM = 2, 1  # warm-up iterations of each, not counted
SMOLLM2 = KNOWN["HuggingFaceTB/SmolLM2-135M"]
GRPO_SIZES = {  # the first has SMOLLM2's layers and width
    "SmolLM2-135M": Size(vocabulary=SMOLLM2.vocab_size, prompt=16, response=48, batch=8),
    "GPT-2, 49 M": Size(layers=8, width=704, heads=22, batch=16),
}


def our_iteration(state: RLHFState) -> dict[str, Span]:
    """`helpers.steps.iterate`, taken apart: steps 1–2, 3–6, 7."""
    marks = {0: now()}
    iterate(state, lambda step, **tensors: marks.update({step: now()}))
    return phases(marks[0], marks[2], marks[6], now())


def our_models(state: RLHFState) -> dict[str, PreTrainedModel]:
    """The four transformers by role, for counting."""
    models = state.models
    roles = {"policy": models.actor, "critic": models.critic.trunk}
    return roles | {"reference": models.reference, "reward": models.reward.encoder}


def enter(name: str, size: Size, minibatch: int) -> tuple[Callable[[], dict], dict]:
    """Set up a contestant: a function that runs one iteration, and its models by role (none for a floor)."""
    if name == "ours":
        state = make_run(size, minibatch, micro_batch_size=size.batch)
        return partial(our_iteration, state), our_models(state)
    actor = make_actor(size, fused=FLOORS[name])
    return Floor(size, minibatch, actor, copy.deepcopy(actor)).iterate, {}


def ppo_race(minibatch: int, size: Size, rounds: int) -> dict:
    """All contestants of a PPO iteration, TRL's with the collections that it forces."""
    others = {n: enter(n, size, minibatch) for n in ("ours", *FLOORS)}
    trainer = make_peer(size, minibatch, WARM + rounds)
    theirs = {"policy": trainer.policy_model, "critic": trainer.value_model}
    theirs |= {"reference": trainer.ref_model, "reward": trainer.reward_model}
    return race(trainer, partial(train_peer, trainer), theirs, others, WARM)


def race(trainer, train: Callable, theirs: dict, others: dict, warm: int) -> dict[str, list | dict]:
    """Times of phases after a warm-up, and work counted: TRL by `train(watch)`, the others in between."""
    counted = {"TRL": theirs} | {name: models for name, (_, models) in others.items()}
    counters = {name: TokenCounter(models) for name, models in counted.items() if models}
    taken: dict[str, list] = {name: [] for name in others}
    tokens: dict[str, dict] = {}

    def between(iteration: int) -> None:
        watch.stop()
        for name, (run, _) in others.items():
            taken[name].append(run())
        tokens.update({name: counter.read() for name, counter in counters.items()})
        watch.start()

    trainer.add_callback(each_iteration(between, trainer.args.logging_steps))
    watch = Stopwatch(trainer)
    train(watch)
    taken = watch.contestants() | taken
    return {name: spans[warm:] for name, spans in taken.items()} | {"tokens": tokens}


def peaks(run: Callable[[], object], times: int = 1) -> dict:
    """Peak memory of this process: before training, and after `run` was called so many times."""
    before = peak_bytes() / MIB
    for _ in range(times):
        run()
    return {"imported_MiB": before, "peak_MiB": peak_bytes() / MIB}


def ppo_alone(who: str, minibatch: int, size: Size, iterations: int = 4) -> dict:
    """Peak memory of one contestant in this process."""
    if who != "TRL":
        return peaks(enter(who, size, minibatch)[0], iterations)
    trainer = make_peer(size, minibatch, iterations)
    return peaks(lambda: train_peer(trainer, Stopwatch(trainer)))


# --- GRPO -----------------------------------------------------------------------------------------


def make_policy(name: str) -> PreTrainedModel:
    """The policy of this name, which never draws EOS or pad; GELU in one kernel, for both trainers."""
    if name == "SmolLM2-135M":
        return make_llama(SMOLLM2)
    return make_actor(GRPO_SIZES[name], fused=True)


def count_sevens(texts: list[str]) -> list[float]:
    """The reward: how many words end in 7."""
    return [float(sum(word.endswith("7") for word in text.split())) for text in texts]


def grpo_config(size: Size, iterations: int) -> RLHFConfig:
    """Settings of both: GRPO as in Shao et al. 2024, four responses to a prompt, one pass, β = 0.1."""
    groups = {"method": "grpo", "responses_per_prompt": 4, "loss_aggregation": "response"}
    groups |= {"kl_placement": "loss", "kl_loss": "k3", "kl_coef": 0.1, "num_ppo_epochs": 1}
    groups |= {"iterations": iterations, "micro_batch_size": size.batch}
    return run_config(size, size.batch, **groups)


def make_grpo_run(actor: PreTrainedModel, size: Size, iterations: int) -> RLHFState:
    """The initial state of our run."""
    models = Models(actor, None, count_sevens, make_reference(actor), make_tokenizer(size))
    return start_run(grpo_config(size, iterations), models, prompts=prompt_texts(size))


@contextmanager
def grpo_trainer(actor: PreTrainedModel, size: Size, iterations: int) -> Iterator:
    """TRL's trainer with the same settings; it loads its reference from a folder."""
    models = Models(actor, None, count_sevens, None, make_tokenizer(size))
    with trl_at_work(models) as folder:
        actor.save_pretrained(folder)
        actor.config._name_or_path = folder
        config = grpo_config(size, iterations)
        yield make_group_trainer(config, models, prompt_texts(size), folder)


def grpo_race(make: Callable[[], PreTrainedModel], size: Size, rounds: int) -> dict:
    """Ours and TRL's GRPOTrainer, which collects no garbage by force."""
    actor = make()
    state = make_grpo_run(copy.deepcopy(actor), size, GRPO_WARM + rounds)
    ours = {"policy": state.models.actor, "reference": state.models.reference}
    with grpo_trainer(actor, size, GRPO_WARM + rounds) as trainer:
        theirs = {"policy": trainer.model, "reference": trainer.ref_model}
        others = {"ours": (partial(our_iteration, state), ours)}
        return race(trainer, lambda watch: trainer.train(), theirs, others, GRPO_WARM)


def grpo_alone(
    who: str, make: Callable[[], PreTrainedModel], size: Size, iterations: int = 2
) -> dict:
    """Peak memory of one of both in this process."""
    actor = make()
    if who == "ours":
        run = partial(our_iteration, make_grpo_run(actor, size, iterations))
        return peaks(run, iterations)
    with grpo_trainer(actor, size, iterations) as trainer:
        return peaks(trainer.train)


# --- what was found -------------------------------------------------------------------------------


def summarize(found: dict, size: Size) -> dict:
    """Medians of every phase, spread of the total, tokens per second, ratios to TRL and the floor."""
    tokens = found.pop("tokens")
    facts = {"tokens": tokens, "contestants": {}}
    totals = {name: np.array([one["total"] for one in rows]) for name, rows in found.items()}
    for name, iterations in found.items():
        row = {}
        for phase in iterations[0]:
            both = np.median([one[phase] for one in iterations], axis=0)
            row[f"{phase}_s"], row[f"{phase}_cpu_s"] = both.tolist()
        walls = totals[name][:, 0].tolist()
        row |= {"least_s": min(walls), "most_s": max(walls)}
        row["tokens_per_s"] = size.batch * size.response / row["total_s"]
        facts["contestants"][name] = row
    ours = totals.pop("ours")
    ratios = {name: np.median(ours / other, axis=0).tolist() for name, other in totals.items()}
    facts["ratios"] = {name: {"wall": wall, "cpu": cpu} for name, (wall, cpu) in ratios.items()}
    return facts


def print_race(facts: dict, title: str) -> None:
    """Print the table of one configuration."""
    print(f"\n{title}: seconds per iteration, medians")
    rows = []
    for name, row in facts["contestants"].items():
        cells = [row.get(f"{phase}_s", "") for phase in PHASES]
        spread = f"{row['least_s']:.3f}–{row['most_s']:.3f}"
        rows.append([name, *cells, spread, row["total_cpu_s"], f"{row['tokens_per_s']:.0f}"])
    show(["", *PHASES, "least–most", "CPU s", "tokens/s"], rows)
    for name, ratio in facts["ratios"].items():
        print(f"  ours / {name}: {ratio['wall']:.2f} by wall time, {ratio['cpu']:.2f} by CPU time")
    for name, count in facts["tokens"].items():
        forward, backward = (sum(count[way].values()) for way in ("forward", "backward"))
        print(f"  {name}: {forward} positions forward, {backward} backward")
    for name, memory in facts.get("memory", {}).items():
        before, peak = memory["imported_MiB"], memory["peak_MiB"]
        print(f"  {name}: peak {peak:.0f} MiB in its own process, {before:.0f} before training")


@dataclass
class Options:
    """Which race, and in which configurations."""

    rounds: int = setting(10, "measured iterations of each")
    threads: list[int] = setting([1, 2], "of PPO's race")
    minibatches: list[int] = setting([64, 16], "of PPO's race")
    grpo: bool = setting(False, "GRPO's race in place of PPO's")


def measure(title: str, race: Callable, alone: Callable, threads: int, *work) -> dict:
    """One race of `work`, size and rounds last, and the memory of each, all in processes of their own."""
    *what, size, rounds = work
    facts = summarize(in_own_process(race, *what, size, rounds, threads=threads), size)
    facts["memory"] = {
        who: in_own_process(alone, who, *what, size, threads=threads) for who in ("TRL", "ours")
    }
    print_race(facts, title)
    return facts


def measure_ppo(options: Options) -> dict:
    """A PPO iteration in every configuration."""
    found = {}
    for threads, minibatch in itertools.product(options.threads, options.minibatches):
        title = f"{threads} thread(s), minibatch {minibatch}"
        work = minibatch, Size(), options.rounds
        found[title] = measure(title, ppo_race, ppo_alone, threads, *work)
    return found


def measure_grpo(options: Options) -> dict:
    """A GRPO iteration of every model."""
    require_grpo()
    found = {"trl": trl_version()}
    for name, size in GRPO_SIZES.items():
        title = f"{name}, {size.batch} responses of {size.response} to prompts of {size.prompt}"
        asked = (partial(make_policy, name), size, options.rounds)
        found[name] = measure(title, grpo_race, grpo_alone, 1, *asked)
    return found


def run(options: Options) -> None:
    """A table for every configuration, then one JSON line."""
    if options.grpo:
        emit("grpo_vs_trl", measure_grpo(options))
    else:
        emit("ppo_vs_trl", measure_ppo(options))


if __name__ == "__main__":
    command("ppo_vs_trl", __doc__, Options, run)
