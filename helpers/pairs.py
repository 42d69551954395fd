"""Preference pairs from a file or a hub; texts between tokenizers; a ready-made classifier as a reward."""

from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerBase

from helpers.models import encode_texts, freeze, load_pretrained, load_tokenizer, resolve_device
from helpers.storage import ROOT, FileProblem, load_rows, read_jsonl
from helpers.validate import require, require_count

COLUMNS = ("prompt", "chosen", "rejected")


def check_pairs(rows: list[dict], where: str) -> list[dict]:
    """The three columns of each row; FileProblem names the first row that is no pair of texts."""
    if not rows:
        raise FileProblem(f"{where} holds no pair; wants at least one row with {list(COLUMNS)}.")
    for number, row in enumerate(rows, start=1):
        for name in COLUMNS:
            if not isinstance(row.get(name), str) or (name != "prompt" and not row[name].strip()):
                raise FileProblem(
                    f"{where}, row {number}: {name!r} is {str(row.get(name))[:40]!r}, wants a text."
                )
    return [{name: row[name] for name in COLUMNS} for row in rows]


def load_pairs(name: str, count: int | None = None, split: str = "train") -> list[dict]:
    """Rows `{prompt, chosen, rejected}`: a JSON Lines file, or a data set of a hub with these columns.

    A name that ends in `.jsonl` or `.json` is a file, beside the notebook or in the course's folder;
    anything else is looked for on the hub (with the package datasets). FileProblem: missing, not of
    this shape, no hub, no package.
    """
    if count is not None:
        require_count("count", count)
    if name.endswith((".jsonl", ".json")):
        shipped = (ROOT / name).is_relative_to(ROOT / "data") and (ROOT / name).exists()
        path = Path(name).expanduser()
        rows = load_rows(str(Path(name).relative_to("data"))) if shipped else read_jsonl(path)
        return check_pairs(rows[:count], name)
    return check_pairs(_hub_rows(name, count, split), f"data set {name!r}")


def _hub_rows(name: str, count: int | None, split: str) -> list[dict]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise FileProblem(
            f"Data set {name!r}: wants the package datasets (`pip install datasets`), or a .jsonl file."
        ) from None
    try:
        part = split if count is None else f"{split}[:{count}]"
        return [dict(row) for row in load_dataset(name, split=part)]
    except Exception as problem:  # noqa: BLE001 (the hub's errors are of many kinds)
        reason = " ".join(str(problem).split())[:200]
        raise FileProblem(f"Could not load data set {name!r} (offline?): {reason}") from None


def round_trip(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[str]:
    """Texts as a tokenizer gives them back: encoded, its special tokens stripped, decoded."""
    require(len(texts) > 0, "texts", "an empty list", "at least one text")
    return tokenizer.batch_decode(tokenizer(texts)["input_ids"], skip_special_tokens=True)


def same_words(text: str, again: str) -> bool:
    """Whether two texts are the same up to case and blanks: what an uncased tokenizer may lose."""
    return "".join(text.lower().split()) == "".join(again.lower().split())


class ClassifierReward:
    """A ready-made text classifier as a reward: the log-odds of one of its labels, texts → scores."""

    def __init__(self, name: str, label: str | int, device: str = "auto"):
        """`name` is a folder or hub name, `label` one of the model's own. FileProblem, ValueError."""
        model = load_pretrained(AutoModelForSequenceClassification, name, dtype=torch.float32)
        self.model = freeze(model.to(resolve_device(device)))
        self.tokenizer = load_tokenizer(name)
        labels = model.config.label2id
        index = label if isinstance(label, int) else labels.get(label, -1)
        fits = 0 <= index < model.config.num_labels
        require(fits, "label", repr(label), f"one of {sorted(labels)} or its number")
        self.label = index

    @torch.inference_mode()
    def __call__(self, texts: list[str], batch_size: int = 64) -> Tensor:
        """Log p(label) − log p(any other) of each text, on the CPU: list of N → [N]; one label: its logit."""
        require(len(texts) > 0, "texts", "an empty list", "at least one text")
        scores = []
        for start in range(0, len(texts), batch_size):
            some = texts[start : start + batch_size]
            encoded = encode_texts(self.tokenizer, some, self.model.config)
            logits = self.model(**encoded.to(self.model.device)).logits.float()  # (b, labels)
            score = logits[:, self.label]
            others = logits[:, [i for i in range(logits.shape[1]) if i != self.label]]
            scores.append((score - others.logsumexp(dim=1) if others.numel() else score).cpu())
        return torch.cat(scores)
