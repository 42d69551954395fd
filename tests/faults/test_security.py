"""No pickle, no code of a model folder, no shell command from user text, no network, no HTML from texts."""

import json
import re
from pathlib import Path

import pytest
from conftest import tiny_models

from helpers.kit.coloured_words import sample_html
from helpers.kit.live import progress_html
from helpers.kit.markup import problem_html
from helpers.lessons.reward_model.labelling import page_html
from helpers.models import load_actor, load_tokenizer
from helpers.reward_model import load_reward_model
from helpers.studies.runs import Sample
from helpers.tools.files import ROOT, FileProblem

SOURCES = sorted([*ROOT.glob("helpers/**/*.py"), *ROOT.glob("benchmarks/**/*.py")])
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
TRUST = r"trust_remote_code\W+True"


def test_no_model_folder_s_code_is_trusted():
    """Lint forbids pickles, evaluated texts and lines for a shell; it does not know this word."""
    trusting = [p.name for p in [*SOURCES, *NOTEBOOKS] if re.search(TRUST, p.read_text("utf-8"))]
    assert trusting == []


def test_nothing_asks_the_network_at_import(harness):
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in SOURCES
        if "benchmarks" not in path.parts and path.stem not in ("__init__", "__main__")
    ]
    done = harness.run("import", *modules)
    assert done.status == 0 and len(modules) > 50, done.err


CODE = "open({mark!r}, 'w').write('ran')\nclass Own: pass\n"


@pytest.fixture
def stranger(tmp_path) -> Path:
    """A model folder whose config refers to its own code."""
    folder, models = tmp_path / "model", tiny_models()
    models.actor.save_pretrained(folder), models.tokenizer.save_pretrained(folder)
    (folder / "own.py").write_text(CODE.format(mark=str(tmp_path / "mark")))
    config = json.loads((folder / "config.json").read_text())
    own = {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own", "AutoModel": "own.Own"}
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": own, "model_type": "own"}))
    return folder


@pytest.mark.parametrize("load", [load_actor, load_reward_model])
def test_a_folder_s_own_code_is_refused_without_a_question(stranger, load, monkeypatch):
    asked = []
    monkeypatch.setattr("builtins.input", lambda *words: asked.append(words) or "y")
    with pytest.raises(FileProblem, match="Could not load"):
        load(str(stranger), "cpu")
    assert not asked and not (stranger.parent / "mark").exists()


def test_pickled_weights_are_refused(tmp_path):
    import torch

    folder, models = tmp_path / "model", tiny_models()
    models.actor.save_pretrained(folder), models.tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(models.actor.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(FileProblem, match="Could not load"):
        load_actor(str(folder), "cpu")
    assert load_tokenizer(str(folder)) is not None


EVIL = "<script>alert(1)</script><img src=x onerror='alert(2)'>&\"'"


def harmless(page: str) -> bool:
    return "<script" not in page and "<img" not in page and "&lt;script&gt;" in page


def test_texts_of_models_and_users_are_escaped_wherever_they_are_shown():
    sample = Sample([EVIL], [-1.0], [-1.0], EVIL, 0.5)
    question = {"prompt": EVIL, "A": EVIL, "B": EVIL}
    pages = [progress_html(1, 2, EVIL).data, page_html(question, 0, 1)]
    pages += [problem_html(ValueError(EVIL)), sample_html(sample, EVIL)]
    assert [harmless(page) for page in pages] == [True] * len(pages)
