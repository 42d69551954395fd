"""Shared by all tests: one torch thread (two test processes must not spin), tiny real models."""

import gc
import os
import socket
import tempfile
from collections.abc import Iterable
from dataclasses import replace

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# a list of fonts of our own: another environment's, half gone, may have left a wrong one in the home
os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp(prefix="matplotlib")
# nor a learner's own functions: notebooks run with an empty folder
os.environ["RLHF_COURSE_WORK"] = tempfile.mkdtemp(prefix="my_course")

import pytest
import torch
from crash_harness import finished, harness, world  # noqa: F401 (for the fault tests)
from hypothesis import Phase, settings

from helpers.config import RLHFConfig
from helpers.models import fingerprint, make_critic, make_reference
from helpers.state import Models, RLHFState, start_run
from helpers.steps import iterate
from helpers.world import reviews
from helpers.world.small_models import make_policy, make_tokenizer

torch.set_num_threads(1)
gc.freeze()  # what is imported stays: the collector need not walk it again and again

# the same examples in every run, so that a red test is red for everybody; `nightly` draws fresh ones
settings.register_profile("steady", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("nightly", deadline=None)
# for a planted bug: that a test fails is enough, the smallest example of it is not asked for
found = (Phase.explicit, Phase.generate)
settings.register_profile("no shrinking", derandomize=True, deadline=None, phases=found)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, needs_cuda])]


@pytest.fixture(params=DEVICES)
def device(request) -> torch.device:
    return torch.device(request.param)


PROMPTS = ["we saw this film", "the soup", "my brother and i stayed at this hotel last", "i read"]
PAIRS = [
    {"prompt": p, "chosen": f"{a} good.", "rejected": f"{a} bad."}
    for p in ("we saw this film", "the soup", "i read", "my brother and i")
    for a in ("it was", "and it was very", ", but it was", "was not")
]
# scores as they are: the 512 samples of a normaliser cost more than all the rest
SMALL = {"batch_size": 8, "response_length": 6, "minibatch_size": 4, "normalize_scores": False}
ONE_BY_ONE = ("::test_run_all_works_again", "::test_every_control_moves", "no_trick[nightly]")
LONGEST_FIRST = ("tests/browser/", *ONE_BY_ONE, "tests/faults/", "notebooks/", "tests/scale/")


def pytest_collection_modifyitems(items):
    """The longest first, so that no process is left alone with one at the end."""

    def place(item) -> int:
        found = (k for k, part in enumerate(LONGEST_FIRST) if part in item.nodeid)
        return next(found, len(LONGEST_FIRST))

    items.sort(key=place)  # stable: a file stays together, and in its order


@pytest.hookimpl(optionalhook=True)  # of xdist, which Colab's environment lacks
def pytest_xdist_make_scheduler(config, log):
    """Side by side, a process takes a file or a notebook whole, and the longest tests one by one."""
    from xdist.scheduler import LoadScopeScheduling

    class Shares(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            alone = any(name in nodeid for name in ONE_BY_ONE)
            return nodeid if alone else nodeid.partition("::")[0]

    config.option.loadscopereorder = False  # by the number of tests in a file
    return Shares(config, log)


@pytest.fixture(autouse=True, scope="session")
def no_network():
    """Sockets reach this machine and no other while tests run."""
    connect = socket.socket.connect

    def only_here(self, address):
        here = self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1", "localhost")
        if not here:
            raise OSError(f"no network in tests: {address}")
        return connect(self, address)

    socket.socket.connect = only_here
    yield
    socket.socket.connect = connect


def length_reward(texts: list[str]) -> torch.Tensor:
    """A simple reward: one point per comma, minus a tenth per word."""
    return torch.tensor([text.count(",") - 0.1 * len(text.split()) for text in texts])


def tiny_models(seed: int = 0, reward=length_reward) -> Models:
    """Real GPT-2 actor, critic and reference of one layer; the course's own tokenizer."""
    torch.manual_seed(seed)
    tokenizer = make_tokenizer(reviews.VOCABULARY)
    actor = make_policy(tokenizer, layers=1, width=32).eval()
    return Models(actor, make_critic(actor), reward, make_reference(actor), tokenizer)


def new_run() -> RLHFState:
    """A run of tiny models that takes a moment."""
    config = RLHFConfig(iterations=2, batch_size=2, response_length=3, normalize_scores=False)
    return start_run(config, tiny_models(), prompts=["the soup", "i read"])


def tiny_lora(**how) -> Models:
    """The same on one set of weights, with adapters of rank 2; skips where peft is not installed."""
    pytest.importorskip("peft", reason="peft, an optional extra, is not installed")
    from helpers.scale.lora import lora_models

    plain = tiny_models()
    return lora_models(make_reference(plain.actor), plain.tokenizer, length_reward, rank=2, **how)


def moved(model, size: float = 0.02, seed: int = 5):
    """The model, its weights some way from where they were."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += size * torch.randn(weight.shape, generator=generator)
    return model


def trained(models: Models) -> str:
    """A fingerprint of all weights that are trained."""
    return "".join(map(fingerprint, models.trained().values()))


def watched(state: RLHFState) -> tuple[dict, dict]:
    """One iteration: its record, and what its steps showed, by name."""
    seen = {}
    return iterate(state, lambda step, **tensors: seen.update(tensors)), seen


def strip(history: Iterable[dict]) -> list[dict]:
    """Records without the seconds they took."""
    return [{name: x for name, x in record.items() if name != "seconds"} for record in history]


@pytest.fixture
def models() -> Models:
    return tiny_models()


@pytest.fixture(scope="session")
def config() -> RLHFConfig:
    return RLHFConfig(iterations=4, **SMALL)


@pytest.fixture(scope="session")
def normalizing(config) -> RLHFConfig:
    """The same run with scores normalised, on few samples."""
    return replace(config, normalize_scores=True, normalizer_samples=32)


@pytest.fixture(scope="session")
def sweep():
    """The shipped β sweep, read once; no test changes it."""
    from helpers.studies.beta_sweep import load_sweep

    return load_sweep()


@pytest.fixture(scope="session")
def prompts() -> list[str]:
    return PROMPTS
