"""One-token responses: few enough to list them all, so the exact optimum is known at every β.

With a response of one token the set of answers is the vocabulary. Each prompt + token is scored once;
π*(v|x) ∝ π_ref(v|x)·exp(r(x,v)/β) follows by enumeration, and so does the distance of any policy to
it. `python -m helpers.one_token` trains by the loop of every lesson and records how near PPO gets.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from tqdm.auto import tqdm

from helpers import storage
from helpers.command import exit_status
from helpers.config import RLHFConfig
from helpers.one_token_rates import CRITIC_FIRST, settings_at
from helpers.optimum import gibbs_policy, gibbs_value, kl_divergence
from helpers.runs import WATCHED, next_token, significant
from helpers.state import Models, RLHFState, load_models, score_texts, start_run
from helpers.steps import iterate
from helpers.validate import require, require_positive, require_shape
from helpers.writing import decode, encode_prompts

FOLDER = storage.DATA / "one_token"
RECORD, TENSORS = "run.json", "distributions.safetensors"
BETAS = (0.1, 0.3, 1.0)
ITERATIONS = 200
MEASURE_EVERY = 5  # iterations between two exact measurements
# advantages stay as they are: at π* they are all 0, and whitening would blow that up to noise
SETTINGS = dict(response_length=1, batch_size=512, minibatch_size=128, num_ppo_epochs=1)
SETTINGS |= dict(learning_rate=5e-4, critic_learning_rate=2e-3, whiten_advantages=False)
SETTINGS |= dict(normalize_scores=False, device="cpu")


@dataclass
class OneTokenWorld:
    """Every prompt with every answer to it. Called with texts, it looks their scores up."""

    prompts: list[str]
    known: dict[str, float]  # every text of one token more than a prompt → its score
    scores: Tensor  # (P, V) float64, score units; mean 0 under the reference
    ref_probs: Tensor  # (P, V) float64

    def __call__(self, texts: list[str]) -> Tensor:
        """Scores [B] of whole texts; ValueError for one that is no prompt + token."""
        unknown = [text for text in texts if text not in self.known]
        require(not unknown, "texts", f"{unknown[:1]}", "a prompt of this world and one token")
        return torch.tensor([self.known[text] for text in texts])


def one_token_texts(tokenizer, prompts: list[str], vocabulary: int) -> list[list[str]]:
    """Prompt + token for every token there is, decoded as `helpers.writing.write` does: [P][V].

    A special token leaves no trace in a text: prompt + EOS is the prompt itself.
    """
    tokens = torch.arange(vocabulary).unsqueeze(1)  # (V, 1)
    counts = torch.ones_like(tokens, dtype=torch.bool)
    queries = zip(*encode_prompts(tokenizer, prompts), strict=True)
    return [
        decode(tokenizer, ids.expand(vocabulary, -1), mask.expand(vocabulary, -1), tokens, counts)
        for ids, mask in queries
    ]


def next_token_probs(state: RLHFState, policy: nn.Module) -> Tensor:
    """π(·|x) for each prompt of the run, float64 so that a small KL keeps its digits: [P, V]."""
    logprobs = next_token(state, policy, tuple(state.prompts))
    return torch.stack([logprobs[prompt] for prompt in state.prompts]).double().softmax(dim=-1)


def enumerate_world(state: RLHFState) -> OneTokenWorld:
    """Score every prompt + token once: 57,000 texts for the shipped prompts, about ten seconds.

    The reference's mean score is taken off them all, so that J(π_ref) = 0; π* does not notice.
    """
    models = state.models
    vocabulary = models.actor.get_input_embeddings().num_embeddings
    rows = one_token_texts(models.tokenizer, state.prompts, vocabulary)
    distinct = list(dict.fromkeys(text for row in rows for text in row))
    known = dict(zip(distinct, score_texts(models.reward, distinct).tolist(), strict=True))
    scores = torch.tensor([[known[text] for text in row] for row in rows], dtype=torch.float64)
    ref_probs = next_token_probs(state, models.reference)
    mean = float((ref_probs * scores).sum(dim=1).mean())
    known = {text: score - mean for text, score in known.items()}
    return OneTokenWorld(list(state.prompts), known, scores - mean, ref_probs)


def measure_exactly(
    probs: Tensor, ref_probs: Tensor, scores: Tensor, kl_coef: float
) -> dict[str, Tensor]:
    """Exact figures of a policy, all three tensors [P, V]; one number a prompt: [P] each.

    `distance` KL(π‖π*) and `kl` KL(π‖π_ref) in nats; `score` E_π[r], `value` J(π), `optimal_value`
    J* in score units. ValueError: shapes, rows that do not sum to 1, β ≤ 0.
    """
    kl, score = kl_divergence(probs, ref_probs), (probs * scores).sum(dim=1)
    found = {"kl": kl, "score": score, "value": score - kl_coef * kl}
    found["distance"] = kl_divergence(probs, gibbs_policy(ref_probs, scores, kl_coef))
    return found | {"optimal_value": gibbs_value(ref_probs, scores, kl_coef)}


class Tried:
    """An observer of `iterate` that remembers which token was drawn for which prompt: [P, V]."""

    def __init__(self, world: OneTokenWorld):
        self.row = {prompt: row for row, prompt in enumerate(world.prompts)}
        self.mask = torch.zeros(world.scores.shape, dtype=torch.bool)

    def __call__(self, step: int, **tensors) -> None:
        if step == 1:
            self.rows = torch.tensor([self.row[prompt] for prompt in tensors["prompts"]])
        if step == 2:
            self.mask[self.rows, tensors["written"].response_tensors[:, 0].cpu()] = True


@dataclass
class OneTokenRun:
    """A run and its exact distance to π*: means along the way, whole distributions at the end.

    `tensors`: `distance` (nats) and `untried` (share of π* on answers never drawn) [P]; of the
    watched prompts `probs`, `ref_probs`, `scores` and `tried`, all [W, V].
    """

    config: RLHFConfig
    critic_first: int
    prompts: list[str]
    watched: list[str]
    curve: list[dict] = field(default_factory=list)  # means over prompts, and the iteration
    tensors: dict[str, Tensor] = field(default_factory=dict)
    facts: dict = field(default_factory=dict)  # command, versions, threads

    @property
    def optimum(self) -> Tensor:
        """π* of the watched prompts: [W, V]."""
        return gibbs_policy(self.tensors["ref_probs"], self.tensors["scores"], self.config.kl_coef)

    def observe(self, world: OneTokenWorld, state: RLHFState, tried: Tensor) -> None:
        """Add the policy as it stands."""
        probs, beta = next_token_probs(state, state.models.actor), self.config.kl_coef
        table = {"probs": probs, "ref_probs": world.ref_probs, "scores": world.scores}
        found = measure_exactly(**table, kl_coef=beta)
        found["untried"] = (gibbs_policy(world.ref_probs, world.scores, beta) * ~tried).sum(dim=1)
        means = {name: float(values.mean()) for name, values in found.items()}
        self.curve.append({"iteration": state.iteration} | means)
        rows = [self.prompts.index(prompt) for prompt in self.watched]
        self.tensors = {name: x[rows].float() for name, x in table.items()} | {"tried": tried[rows]}
        self.tensors |= {name: found[name].float() for name in ("distance", "untried")}


def settings(kl_coef: float, seed: int = 0, iterations: int = ITERATIONS, **changes) -> RLHFConfig:
    """One setting for every β."""
    return RLHFConfig(kl_coef=kl_coef, seed=seed, iterations=iterations, **SETTINGS | changes)


def begin(world: OneTokenWorld, config: RLHFConfig, models: Models | None = None) -> RLHFState:
    """A run of the ordinary loop whose reward is a look into the table."""
    models = models or load_models(config, world)
    return start_run(config, replace(models, reward=world), prompts=world.prompts)


def train(
    world: OneTokenWorld, state: RLHFState, critic_first: int = CRITIC_FIRST, every: int = 1
) -> Iterator[OneTokenRun]:
    """Train to the end; yields the same, growing run each `every` iterations, measured exactly.

    In the first `critic_first` iterations only the critic learns; `settings_at` says the rest.
    """
    config, tried = state.config, Tried(world)
    watched = [prompt for prompt in WATCHED if prompt in world.prompts] or world.prompts[:1]
    run = OneTokenRun(config, critic_first, world.prompts, watched)
    run.observe(world, state, tried.mask)
    while state.iteration < config.iterations:
        state.config = settings_at(config, state.iteration, critic_first)
        iterate(state, tried)
        if state.iteration % every == 0 or state.iteration == config.iterations:
            run.observe(world, state, tried.mask)
            yield run
    state.config = config


def save_one_token(run: OneTokenRun, folder: Path) -> None:
    """Write a run into its folder below `folder`, whole or not at all."""
    facts = {name: getattr(run, name) for name in ("critic_first", "prompts", "watched", "curve")}
    facts = run.facts | {"config": run.config.as_dict()} | facts
    with storage.atomic_folder(folder / f"beta_{run.config.kl_coef:g}") as temporary:
        storage.write_json(temporary / RECORD, significant(facts, 6))
        save_file({k: x.contiguous() for k, x in run.tensors.items()}, temporary / TENSORS)


def load_one_token(folder: Path = FOLDER) -> dict[float, OneTokenRun]:
    """The runs in a folder by β, smallest first; FileProblem when one is missing, broken or altered."""
    storage.verify(folder)
    runs = [_load_run(path.parent) for path in folder.glob(f"beta_*/{RECORD}")]
    if not runs:
        raise storage.FileProblem(f"{folder} holds no run of `python -m helpers.one_token`.")
    return {run.config.kl_coef: run for run in sorted(runs, key=lambda run: run.config.kl_coef)}


def _load_run(folder: Path) -> OneTokenRun:
    facts = storage.read_json(folder / RECORD)
    tensors = storage.read_tensors(folder / TENSORS)
    try:
        config = RLHFConfig.from_dict(facts.pop("config"))
        own = [facts.pop(name) for name in ("critic_first", "prompts", "watched", "curve")]
        require_shape("untried", tensors["untried"], tensors["distance"].shape)
        require_shape("tried", tensors["tried"], tensors["probs"].shape)
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise storage.FileProblem(f"{folder} does not hold a whole run: {problem}.") from None
    return OneTokenRun(config, *own, tensors, facts)


def record(options: argparse.Namespace, command: str) -> None:
    """Train at each β and keep the run; what else is in the folder stays."""
    require_positive("--betas", min(options.betas))
    configs = [settings(beta, options.seed, options.iterations) for beta in options.betas]
    facts = {"command": command, "torch": torch.__version__, "threads": torch.get_num_threads()}
    world = enumerate_world(start_run(configs[0]))
    for config in configs:
        rounds = train(world, begin(world, config), every=MEASURE_EVERY)
        for run in tqdm(rounds, f"β = {config.kl_coef:g}", -(-config.iterations // MEASURE_EVERY)):
            run.facts = facts
        save_one_token(run, options.out)
        print(f"β = {config.kl_coef:g}: KL(π‖π*) {run.curve[-1]['distance']:.4f} nats", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """The command; → its exit status."""
    parser = argparse.ArgumentParser(prog="python -m helpers.one_token", description=__doc__)
    parser.add_argument("--betas", type=float, nargs="+", default=BETAS)
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="results (my_course/one_token)")
    options = parser.parse_args(arguments)
    options.out = options.out or storage.work_folder() / FOLDER.name
    command = " ".join([parser.prog, *(arguments or sys.argv[1:])])
    return exit_status(lambda: record(options, command), "Stopped; finished runs are kept.")


if __name__ == "__main__":
    sys.exit(main())
