"""One-token responses: few enough to list them all, so the exact optimum is known at every β.

With a response of one token the set of answers is the vocabulary. Each prompt + token is scored once;
π*(v|x) ∝ π_ref(v|x)·exp(r(x,v)/β) follows by enumeration, and so does the distance of any policy to
it. The command trains by the loop of every lesson and records how near PPO gets.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from tqdm.auto import tqdm

from helpers.config import RLHFConfig
from helpers.data import DATA, verify
from helpers.rewards import score_texts
from helpers.sampling import decode, encode_prompts
from helpers.state import RLHFState, start_run
from helpers.steps import iterate
from helpers.studies.runs import WATCHED_PROMPTS, Run, next_token
from helpers.studies.study import Options, as_entry, keep_runs, load_study, origin, run_name
from helpers.theory.optimum import gibbs_policy, gibbs_value, kl_divergence
from helpers.tools.files import atomic_folder, read_tensors

CRITIC_FIRST = 6  # the first iterations, in which only the critic learns
SMALL = 0.2  # what follows is for β below this
BONUS, BONUS_END = 0.13, 0.42  # an entropy bonus, down to 0 when this share of the run is done
LATE, FASTER = 0.4, 1.6  # from this share on the actor's rate is so many times higher
HELD_SHARE = 0.85  # share of the run in which the rates are held


def settings_at(config: RLHFConfig, iteration: int, critic_first: int) -> RLHFConfig:
    """The settings of one iteration of a run with these settings.

    First the critic learns alone (4 epochs, the actor's rate 0): to a critic that expects too much
    every answer looks bad, and the right one, drawn most, is driven out. From then on the rates are
    annealed by the loop, as ever, except at small β, where π* is far away: there they are held for
    most of the run. At π* every advantage is 0 and its noise with it, so a large step does little
    harm near the end, and a small one leaves the way unfinished. (At β = 1, near the reference
    from the beginning, held rates would cost a tenth of J*.) And at first there is an entropy bonus:
    at β = 0.1 the best answer may be one that the reference gives once in a million times, and PPO
    can only reward what it has drawn. A bonus c turns π_ref into π_ref^(β/(β + c)): rare answers
    are tried, which at larger β are not worth their price.
    """
    if iteration < critic_first:
        return replace(config, learning_rate=0.0, num_ppo_epochs=4)
    if config.kl_coef >= SMALL:
        return config
    left = 1.0 - iteration / config.iterations  # the loop multiplies its rates by this
    share = (iteration - critic_first) / config.iterations
    held = min(1.0, left / (1.0 - HELD_SHARE)) / left
    return replace(
        config,
        learning_rate=config.learning_rate * held * (FASTER if share > LATE else 1.0),
        critic_learning_rate=config.critic_learning_rate * held,
        entropy_coef=BONUS * max(0.0, 1.0 - share / BONUS_END),
    )


FOLDER = DATA / "one_token"
TENSORS, RUN_FACTS = "distributions.safetensors", ("critic_first", "prompts", "watched")
BETAS = (0.1, 0.3, 1.0)
MEASURE_EVERY = 5  # iterations between two exact measurements
# advantages stay as they are: at π* they are all 0, and whitening would blow that up to noise
SETTINGS = dict(response_length=1, batch_size=512, minibatch_size=128, num_ppo_epochs=1)
SETTINGS |= dict(learning_rate=5e-4, critic_learning_rate=2e-3, whiten_advantages=False)
SETTINGS |= dict(normalize_scores=False, device="cpu", iterations=200)


@dataclass
class OneTokenWorld:
    """Scores of every prompt + token. Called with texts, it returns their scores."""

    prompts: list[str]
    known: dict[str, float]  # every text of one token more than a prompt → its score
    scores: Tensor  # (P, V) float64, score units; mean 0 under the reference
    ref_probs: Tensor  # (P, V) float64

    def __call__(self, texts: list[str]) -> Tensor:
        """Scores [B] of texts. KeyError: a text that is not a prompt + token."""
        return torch.tensor([self.known[text] for text in texts])


def one_token_texts(tokenizer, prompts: list[str], vocabulary: int) -> list[list[str]]:
    """Prompt + token for every token, decoded as in `helpers.sampling.sample_responses`: [P][V].

    A special token is not visible in the text: prompt + EOS is the prompt.
    """
    tokens = torch.arange(vocabulary).unsqueeze(1)  # (V, 1)
    counts = torch.ones_like(tokens, dtype=torch.bool)
    queries = zip(*encode_prompts(tokenizer, prompts), strict=True)
    return [
        decode(tokenizer, ids.expand(vocabulary, -1), mask.expand(vocabulary, -1), tokens, counts)
        for ids, mask in queries
    ]


def next_token_probs(state: RLHFState, policy: nn.Module) -> Tensor:
    """π(·|x) for each prompt of the run, in float64 for the precision of a small KL: [P, V]."""
    logprobs = next_token(state, policy, tuple(state.prompts))
    return torch.stack([logprobs[prompt] for prompt in state.prompts]).double().softmax(dim=-1)


def enumerate_world(state: RLHFState) -> OneTokenWorld:
    """Score every prompt + token once: 57,000 texts for the shipped prompts, about ten seconds.

    The reference's mean score is subtracted, so that J(π_ref) = 0; this does not change π*.
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
    """Exact figures of a policy, one number per prompt: three tensors [P, V] → [P] each.

    `distance` KL(π‖π*) and `kl` KL(π‖π_ref) in nats; `score` E_π[r], `value` J(π), `optimal_value`
    J* in score units. ValueError: shapes, rows that do not sum to 1, β ≤ 0.
    """
    kl, score = kl_divergence(probs, ref_probs), (probs * scores).sum(dim=1)
    found = {"kl": kl, "score": score, "value": score - kl_coef * kl}
    found["distance"] = kl_divergence(probs, gibbs_policy(ref_probs, scores, kl_coef))
    return found | {"optimal_value": gibbs_value(ref_probs, scores, kl_coef)}


class DrawnTokens:
    """An observer of `iterate` that records which tokens were drawn for each prompt: [P, V]."""

    def __init__(self, world: OneTokenWorld):
        self.row = {prompt: row for row, prompt in enumerate(world.prompts)}
        self.mask = torch.zeros(world.scores.shape, dtype=torch.bool)

    def __call__(self, step: int, **tensors) -> None:
        if step == 1:
            self.rows = torch.tensor([self.row[prompt] for prompt in tensors["prompts"]])
        if step == 2:
            self.mask[self.rows, tensors["responses"].response_tensors[:, 0].cpu()] = True


@dataclass
class OneTokenRun:
    """A run and its exact distance to π*: means during training, whole distributions at the end.

    `tensors`: `distance` (nats) and `untried` (share of π* on answers never drawn) [P]; of the
    watched prompts `probs`, `ref_probs`, `scores` and `tried`, all [W, V].
    """

    config: RLHFConfig
    critic_first: int
    prompts: list[str]
    watched: list[str]
    curve: list[dict] = field(default_factory=list)  # means over prompts, and the iteration
    tensors: dict[str, Tensor] = field(default_factory=dict)

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


def settings(kl_coef: float, **changes) -> RLHFConfig:
    """One setting for every β."""
    return RLHFConfig(kl_coef=kl_coef, **SETTINGS | changes)


def start_one_token(world: OneTokenWorld, config: RLHFConfig) -> RLHFState:
    """Start a run of the usual loop, with the table of scores as its reward."""
    return start_run(config, reward=world, prompts=world.prompts)


def train(
    world: OneTokenWorld, state: RLHFState, critic_first: int = CRITIC_FIRST, every: int = 1
) -> Iterator[OneTokenRun]:
    """Train to the end; yields the same, growing run each `every` iterations, measured exactly.

    In the first `critic_first` iterations only the critic learns; `settings_at` says the rest.
    """
    config, tried = state.config, DrawnTokens(world)
    watched = [prompt for prompt in WATCHED_PROMPTS if prompt in world.prompts] or world.prompts[:1]
    run = OneTokenRun(config, critic_first, world.prompts, watched)
    run.observe(world, state, tried.mask)
    while state.iteration < config.iterations:
        state.config = settings_at(config, state.iteration, critic_first)
        iterate(state, tried)
        if state.iteration % every == 0 or state.iteration == config.iterations:
            run.observe(world, state, tried.mask)
            yield run
    state.config = config


def save_one_token(run: OneTokenRun, folder: Path, facts: dict) -> None:
    """Add a run to the study in `folder`; its tensors get their own folder there."""
    kind = f"beta_{run.config.kl_coef:g}"
    name = run_name(kind, run.config.seed)
    with atomic_folder(folder / name) as temporary:
        save_file({k: x.contiguous() for k, x in run.tensors.items()}, temporary / TENSORS)
    entry = as_entry(Run(run.config, run.curve, kind=kind))
    keep_runs(folder, {name: entry}, facts | {name: getattr(run, name) for name in RUN_FACTS})


def load_one_token(folder: Path = FOLDER) -> dict[float, OneTokenRun]:
    """Load the runs of a folder by β, smallest first. FileProblem: missing or damaged."""
    study, found = load_study(folder, names=RUN_FACTS), {}
    verify(folder)
    shared = [study.facts[name] for name in RUN_FACTS]
    for run in sorted(study.runs, key=lambda run: run.config.kl_coef):
        tensors = read_tensors(folder / run.label / TENSORS)
        found[run.config.kl_coef] = OneTokenRun(run.config, *shared, run.history, tensors)
    return found


class OneTokenOptions(Options, name="one_token"):
    """One-token responses: PPO's exact distance to the best policy, at several β."""

    def run(self) -> None:
        """Train at each β, and save each run when it is done."""
        world = enumerate_world(start_run(settings(BETAS[0])))
        for beta in BETAS:
            rounds = train(world, start_one_token(world, settings(beta)), every=MEASURE_EVERY)
            *_, found = tqdm(rounds, f"β = {beta:g}", SETTINGS["iterations"] // MEASURE_EVERY)
            save_one_token(found, self.results, origin(self, torch.get_num_threads()))
            distance = found.curve[-1]["distance"]
            print(f"β = {beta:g}: KL(π‖π*) {distance:.4f} nats", flush=True)
