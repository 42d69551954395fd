"""The learner's file `my_course/my_rlhf.py`: lesson 06 saves it, lessons 10 and 11 add a method each.

It imports nothing of the course: `python my_course/my_rlhf.py [ITERATIONS] [ppo|rloo|dpo]`.
"""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import torch

from helpers.data import work_folder
from helpers.kit.own import whole_source
from helpers.kit.recorded import trainer_parts
from helpers.tools.files import write_text

FILE = "my_rlhf.py"
METHODS = {
    "rloo": '''K = 4  # responses to a prompt
draw_different = draw_prompts


def draw_groups(prompts, batch_size):
    return [prompt for prompt in draw_different(prompts, batch_size // K) for _ in range(K)]


def leave_one_out(critic, ids, mask, rewards, gamma, lam):
    counted, zeros = mask[:, -rewards.shape[1] :], torch.zeros_like(rewards)
    return zeros, rloo_advantages(rewards.sum(1), K)[:, None] * counted, zeros


def train_rloo(parts, config):
    """`train` with two steps exchanged; the critic stays at 0."""
    globals().update(draw_prompts=draw_groups, estimate_advantages=leave_one_out)
    yield from train(parts, config)''',
    "dpo": '''def pair_logprobs(policy, tokenizer, pairs, which, temperature):
    prompts = tokenizer([pair["prompt"] for pair in pairs], return_tensors="pt", padding=True,
                        padding_side="left")
    texts = [f" {pair[which]}{tokenizer.eos_token}" for pair in pairs]
    answers = tokenizer(texts, return_tensors="pt", padding=True, padding_side="right",
                        add_special_tokens=False)
    ids = torch.cat([prompts.input_ids, answers.input_ids], 1)
    mask = torch.cat([prompts.attention_mask, answers.attention_mask], 1).bool()
    length = answers.input_ids.shape[1]
    logprobs = forward_logprobs(policy, ids, mask, length, temperature)
    return torch.where(mask[:, -length:], logprobs, 0.0).sum(1)  # of whole responses: [B]


def train_dpo(parts, config):
    """`train` with another update, on pairs; its responses and scores only measure."""
    rows = [json.loads(line) for line in (DATA / "pairs_train.jsonl").open(encoding="utf-8")]

    def update_on_pairs(actor, critic, optimizer, rollout, config):
        pairs = [rows[i] for i in torch.randperm(len(rows))[: config.batch_size]]
        both = [(parts.tokenizer, pairs, which, config.temperature) for which in ("chosen", "rejected")]
        with torch.no_grad():
            known = [pair_logprobs(parts.reference, *one) for one in both]
        optimizer.zero_grad()
        dpo_loss(*(pair_logprobs(actor, *one) for one in both), *known, config.kl_coef).backward()
        optimizer.step()

    globals().update(update=update_on_pairs)
    yield from train(parts, config)''',
}  # fmt: skip
TAIL = """# --- run ---

METHODS = {{{methods}}}

if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("iterations", nargs="?", type=int, default=config.iterations)
    parser.add_argument("method", nargs="?", default="ppo", choices=METHODS)
    given = parser.parse_args()
    config.iterations, parts = given.iterations, load_parts(DATA)
    torch.manual_seed(config.seed), random.seed(config.seed), np.random.seed(config.seed)
    for number, (score, kl) in enumerate(METHODS[given.method](parts, config), start=1):
        print(f"iteration {{number:3d}}   score {{float(score):6.3f}}   KL {{float(kl):6.3f}}", flush=True)
"""
CUT = re.compile(r"\n\n\n# --- (\w+) ---\n\n|\n\n\nif __name__")


def read(path: Path) -> tuple[str, dict[str, str]]:
    """The trainer of a saved file, and its other methods by name; "" and none where there is no file."""
    base, *rest = CUT.split(path.read_text("utf-8") if path.is_file() else "")
    return base, {k: text for k, text in zip(rest[::2], rest[1::2], strict=True) if k in METHODS}


def save(path: Path, base: str, methods: dict[str, str], tried: str) -> str | None:
    """Write the file if a small iteration of the method `tried` runs; else → why not."""
    functions = '"ppo": train' + "".join(f', "{name}": train_{name}' for name in methods)
    parts = [f"# --- {name} ---\n\n{text}" for name, text in methods.items()]
    source = "\n\n\n".join([base, *parts, TAIL.format(methods=functions)])
    names = {"__name__": "my_rlhf"}
    small = {"iterations": 1, "batch_size": 4, "minibatch_size": 4, "response_length": 4}
    try:
        exec(compile(source, FILE, "exec"), names)  # noqa: S102 (the learner's own program)
        settings = SimpleNamespace(**vars(names["config"]) | small)
        with torch.random.fork_rng(devices=[]):
            list(names["METHODS"][tried](trainer_parts(), settings))
    except NameError as problem:
        says = f"{problem}: a function uses something of the notebook that is no function."
        return f"{says} Move it into the function."
    except Exception as problem:  # noqa: BLE001 (said, not raised: it is a learner's program)
        return f"{type(problem).__name__}: {problem}"
    write_text(path, source)
    return None


def add_method(name: str, function: Callable, path: Path | None = None) -> None:
    """Add "rloo" with somebody's `rloo_advantages`, or "dpo" with their `dpo_loss`; says what it did."""
    path = path or work_folder() / FILE
    base, methods = read(path)
    own = inspect.unwrap(function)
    if own.__module__.startswith("helpers."):
        print(f"Not added: {own.__name__} is the course's. Write yours, then run this cell again.")
    elif not base:
        print(f"Not added: there is no {FILE} yet. Lesson 06 saves it when all eight are yours.")
    else:
        methods |= {name: f"{whole_source(function).rstrip()}\n\n\n{METHODS[name]}"}
        problem = save(path, base, methods, name)
        print(f"Not added. {problem}" if problem else f"Added. Run it: python {path} 20 {name}")
