"""The reward model: an encoder or a decoder with a scalar head, trained on preferences (Bradley–Terry)."""

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import logsigmoid
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerBase
from transformers.utils import cached_file

from helpers.data import COLUMNS, SIDES, find_folder
from helpers.models import (
    accepts,
    check_vocabulary,
    encode_texts,
    load_pretrained,
    load_tokenizer,
    quiet_loading,
    resolve_device,
    without_dropout,
)
from helpers.tools.files import FileProblem, atomic_folder
from helpers.tools.optimizers import Optimizers, warm_cosine
from helpers.tools.validate import require, require_choice, require_count, require_positive

HEAD_FILE = "reward_head.safetensors"
ONE_SCORE = "one score for all texts", "scores that differ (are the texts cut before they do?)"
OPTIONAL = {  # a file that a model may lack: None then, and no error
    "_raise_exceptions_for_missing_entries": False,
    "_raise_exceptions_for_gated_repo": False,
    "_raise_exceptions_for_connection_errors": False,
}


def bradley_terry_loss(chosen: Tensor, rejected: Tensor) -> Tensor:
    """Mean of −log sigmoid(chosen − rejected): scores [B], [B] → scalar nats per pair.

    P(chosen is preferred) = sigmoid of the score difference (Bradley and Terry 1952; Stiennon et al.
    2020, eq. 1).
    """
    return -logsigmoid(chosen - rejected).mean()


@torch.no_grad()
def is_causal(encoder: nn.Module) -> bool:
    """Whether another second token leaves the first token's state as it was: a decoder.

    Asked of the model itself, on two texts of two tokens: no configuration says it for all models.
    ValueError: a model that gives no states, or the same ones for both texts.
    """
    training, states = encoder.training, []
    wants = "one that turns input_ids and attention_mask into a last_hidden_state of the tokens"
    try:
        encoder.eval()
        for second in (1, 2):
            ids = torch.tensor([[0, second]], device=next(encoder.parameters()).device)
            output = encoder(input_ids=ids, attention_mask=torch.ones_like(ids))
            states.append(output.last_hidden_state[0].float())
    except (AttributeError, IndexError, TypeError, ValueError) as problem:
        got = f"a {type(encoder).__name__} ({' '.join(str(problem).split())[:100]})"
        raise ValueError(f"encoder: got {got}, wants {wants}.") from None
    finally:
        encoder.train(training)
    at_first, at_second = (states[0] - states[1]).abs().amax(dim=1).tolist()
    require(at_second > 0, "encoder", "one that gives two texts the same states", wants)
    return at_first <= 1e-4 * at_second  # exactly 0 but for rounding; random encoders: above 2e-3


class RewardModel(nn.Module):
    """Encoder (or decoder), scalar head, and the mean and scale that normalise its scores."""

    def __init__(self, encoder: nn.Module, tokenizer: PreTrainedTokenizerBase):
        super().__init__()
        check_vocabulary(encoder, tokenizer)
        self.encoder, self.tokenizer, self.causal = encoder, tokenizer, is_causal(encoder)
        width = encoder.config.hidden_size
        self.head = nn.Linear(width, 1)
        nn.init.normal_(self.head.weight, std=(width + 1) ** -0.5)  # Stiennon et al. 2020
        nn.init.zeros_(self.head.bias)
        self.register_buffer("score_mean", torch.zeros(()))
        self.register_buffer("score_std", torch.ones(()))

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return self.head.weight.device

    @property
    def is_normalized(self) -> bool:
        """Whether `normalize` (or a loaded folder) has set the mean and scale."""
        return float(self.score_std) != 1.0 or float(self.score_mean) != 0.0

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Normalised scores: [B, L] ids and mask → [B].

        Read at the first token, [CLS]. A decoder's first token sees only itself: its last one that
        counts is read.
        """
        options = {"use_cache": False} if accepts(self.encoder, "use_cache") else {}
        output = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **options)
        hidden = output.last_hidden_state  # (B, L, d)
        if self.causal:
            last = attention_mask.cumsum(dim=1).argmax(dim=1)
            read = hidden[torch.arange(len(last), device=last.device), last]
        else:
            read = hidden[:, 0]
        scores = self.head(read.to(self.head.weight.dtype)).squeeze(-1)
        return (scores - self.score_mean) / self.score_std

    def encode(self, texts: list[str]) -> dict:
        """Token ids and mask [B, L] of prompt + response texts, padded right, on the model's device."""
        encoded = encode_texts(self.tokenizer, texts, self.encoder.config)
        return {name: encoded[name].to(self.device) for name in ("input_ids", "attention_mask")}

    @torch.inference_mode()
    def score_texts(self, texts: list[str], batch_size: int = 256) -> Tensor:
        """Scores of whole texts (prompt + response), on the CPU: list of N → [N]."""
        require(len(texts) > 0, "texts", "an empty list", "at least one text")
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # little padding per batch
        scores = torch.empty(len(texts))
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            scores[rows] = self(**self.encode([texts[i] for i in rows])).float().cpu()
        return scores

    def save(self, folder: str | Path) -> None:
        """Save encoder and tokenizer (`save_pretrained`) and the head; the folder is replaced atomically."""
        head = {"weight": self.head.weight, "bias": self.head.bias}
        head |= {"score_mean": self.score_mean, "score_std": self.score_std}
        with atomic_folder(Path(folder)) as temporary, quiet_loading():
            self.encoder.save_pretrained(temporary)
            self.tokenizer.save_pretrained(temporary)
            tensors = {name: value.detach().cpu().contiguous() for name, value in head.items()}
            save_file(tensors, temporary / HEAD_FILE)


def _load_encoder(name: str) -> tuple[nn.Module, PreTrainedTokenizerBase]:
    """An encoder without dropout, and its tokenizer. FileProblem: no such model."""
    config = without_dropout(load_pretrained(AutoConfig, name))
    encoder = load_pretrained(AutoModel, name, config=config, dtype=torch.float32)
    return encoder, load_tokenizer(name)


def fresh_reward_model(encoder: str, device: str = "auto", seed: int = 0) -> RewardModel:
    """A reward model with a new head on any encoder or decoder (folder or hub name), not yet fitted."""
    trunk = _load_encoder(encoder)
    torch.manual_seed(seed)
    return RewardModel(*trunk).to(resolve_device(device)).eval()


def load_reward_model(name: str = "data/reward", device: str = "auto") -> RewardModel:
    """Load a reward model that `RewardModel.save` wrote, from a folder or the hub.

    ValueError: a model without a reward head, whose scores would be those of random weights;
    FileProblem: no such model, not a reward head.
    """
    load_pretrained(AutoConfig, name)  # says if there is no such model
    # None where there is none, or where a folder lacks it
    file = cached_file(str(find_folder(name) or name), HEAD_FILE, **OPTIONAL)
    wants = "one saved by RewardModel.save; a classifier goes into a `reward`, a function"
    got = f"{name!r}, a model without {HEAD_FILE}: its head would be untrained"
    require(file is not None, "reward_model", got, wants)
    model = RewardModel(*_load_encoder(name))
    try:
        head = load_file(file)
        model.head.load_state_dict({"weight": head["weight"], "bias": head["bias"]})
        model.score_mean, model.score_std = head["score_mean"], head["score_std"]
    except Exception as problem:  # noqa: BLE001 (safetensors, torch and KeyError alike)
        reason = " ".join(str(problem).split())[:200]
        raise FileProblem(f"{file} is not a reward head: {reason}") from None
    return model.to(resolve_device(device)).eval()


def pair_texts(pairs: list[dict]) -> tuple[list[str], list[str]]:
    """Prompt + chosen and prompt + rejected texts of `{prompt, chosen, rejected}` rows.

    ValueError: a row without these three texts.
    """
    for pair in pairs:
        texts = isinstance(pair, dict) and all(isinstance(pair.get(name), str) for name in COLUMNS)
        wants = "texts under prompt, chosen and rejected (`as_pairs` makes them of messages)"
        require(texts, "pairs", repr(pair)[:60], wants)
    return tuple([join(pair["prompt"], pair[side]) for pair in pairs] for side in SIDES)


def join(prompt: str, response: str) -> str:
    """Prompt and response as one text, with a space between unless there is one or punctuation follows."""
    has_one = prompt[-1:].isspace() or response[:1].isspace()  # a chat's prompt: by a new line
    space = "" if not prompt or has_one or response[:1] in (".", ",", "!", "?", "") else " "
    return prompt + space + response


def warmup_steps(steps: int) -> int:
    """Steps until the full learning rate: 20, or five sixths of a fit of less than 24 steps.

    With 20 throughout, the one step that 30 pairs give would be made at a twentieth of the rate.
    """
    return min(20, -(-5 * steps // 6))  # 24 steps, the shortest recorded fits, keep their 20


def passes(pairs: int) -> int:
    """Number of passes over so many pairs: fewer need more, to have enough gradient steps."""
    require_count("pairs", pairs)
    return max(3, min(12, round(4_000 / pairs)))


def tells_apart(difference: Tensor, scores: Tensor) -> bool:
    """Whether scores differ by more than rounding makes of equal texts; NaN does not."""
    return bool(difference > 1e-6 + 1e-5 * scores.abs().max())


def fit_reward_model(
    model: RewardModel,
    pairs: list[dict],
    epochs: int | None = None,
    batch_size: int = 64,
    learning_rate: float = 2.5e-3,
    optimizer: str = "muon",
    seed: int = 0,
    on_step: Callable[[int, int, float], None] | None = None,
) -> RewardModel:
    """Train a reward model, in place, on `{prompt, chosen, rejected}` rows.

    Without `epochs`, as many passes as the number of pairs asks for (`passes`). The learning rate warms
    up (`warmup_steps`) and is annealed to 0; gradients are clipped. Use "muon" for an encoder trained
    from scratch, "adamw" with a learning rate near 5e-5 for a pretrained one. `on_step(step, steps,
    loss)` is called after each gradient step; an exception in it stops the training there. ValueError:
    no pair, epochs or batch_size < 1, learning_rate ≤ 0, optimizer, or eight steps in which both texts
    of every pair get the same score.
    """
    require(len(pairs) > 0, "pairs", "an empty list", "at least one pair")
    epochs = passes(len(pairs)) if epochs is None else epochs
    require_count("epochs", epochs)
    require_count("batch_size", batch_size)
    require_positive("learning_rate", learning_rate)
    require_choice("optimizer", optimizer, ("muon", "adamw"))
    chosen, rejected = pair_texts(pairs)
    generator = torch.Generator().manual_seed(seed)
    steps = epochs * -(-len(pairs) // batch_size)
    optimizers = Optimizers(model, learning_rate, optimizer)
    step, learns = 0, False
    model.train()
    for _ in range(epochs):
        for index in torch.randperm(len(pairs), generator=generator).split(batch_size):
            rows = index.tolist()
            texts = [chosen[i] for i in rows] + [rejected[i] for i in rows]
            scores = model(**model.encode(texts))
            sides = scores.split(len(rows))  # chosen, rejected
            loss = bradley_terry_loss(*sides)
            optimizers.step(loss, warm_cosine(step, steps, warmup_steps(steps)))
            step += 1
            learns = learns or tells_apart((sides[0] - sides[1]).abs().max(), scores)
            require(learns or step < min(steps, 8), "reward model", *ONE_SCORE)
            if on_step is not None:
                on_step(step, steps, float(loss.detach()))
    model.eval()
    return model


def normalize(model: RewardModel, reference_texts: list[str]) -> RewardModel:
    """Set mean and scale so that the scores of these reference samples have mean 0, variance 1.

    ValueError: fewer than two texts, or one score for all of them.
    """
    require(len(reference_texts) > 1, "reference_texts", len(reference_texts), "at least two texts")
    model.score_mean.zero_()
    model.score_std.fill_(1.0)
    scores = model.score_texts(reference_texts)
    require(tells_apart(scores.std(), scores), "reward model", *ONE_SCORE)
    model.score_mean.copy_(scores.mean())
    model.score_std.copy_(scores.std())
    return model


def pair_accuracy(score: Callable[[list[str]], Tensor], pairs: list[dict]) -> float:
    """Share of pairs in which the chosen response has the higher score; a tie counts half."""
    chosen, rejected = (torch.as_tensor(score(texts)).float() for texts in pair_texts(pairs))
    return float(((chosen > rejected).float() + 0.5 * (chosen == rejected).float()).mean())


def held_out_accuracy(
    fit: Callable[[list[dict]], RewardModel], pairs: list[dict], folds: int = 4
) -> float:
    """Accuracy on pairs that were not fitted: each of `folds` parts is judged by a fit to the others.

    For pairs too few to set any aside (cross-validation). ValueError: fewer pairs than folds.
    """
    require_count("folds", folds, low=2)
    require(len(pairs) >= folds, "pairs", f"{len(pairs)} of them", f"at least {folds}")
    right = 0.0
    for fold in range(folds):
        others = [pair for i, pair in enumerate(pairs) if i % folds != fold]
        held_out = pairs[fold::folds]
        right += pair_accuracy(fit(others).score_texts, held_out) * len(held_out)
    return right / len(pairs)
