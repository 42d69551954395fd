"""Mistakes planted in helpers/: do the lessons notice, when nbval runs them?

`python tests/notebooks/planted_in_helpers.py` copies the course, plants one mistake, runs the lessons
that teach the line (as `make test` runs them, up to the first failure), and goes on to the next: a
minute each. Prints a table and the share that was noticed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NBVAL = ("-q", "-x", "-p", "no:cacheprovider", "--nbval-lax", "--nbval-current-env")
NBVAL += ("--nbval-cell-timeout=580",)


@dataclass(frozen=True)
class Plant:
    """One mistake: what becomes of a line of helpers/, and the lessons that teach this line."""

    name: str
    file: str
    right: str
    wrong: str
    lessons: str  # numbers, in the order in which they are run

    def edited(self) -> str:
        """The file with the mistake. ValueError: the line is not there, or not once."""
        text = (ROOT / "helpers" / self.file).read_text(encoding="utf-8")
        if text.count(self.right) != 1:
            raise ValueError(
                f"{self.file}: {self.right!r} stands there {text.count(self.right)} times"
            )
        return text.replace(self.right, self.wrong)


PLANTS = [
    Plant(
        "bootstraps after the end",
        "gae.py",
        "torch.zeros_like(values[:, :1])",
        "values[:, -1:]",
        "02",
    ),
    Plant("γ left out of the sum", "gae.py", "gamma * lam * running", "lam * running", "02"),
    Plant("γ left out of δ", "gae.py", "gamma * next_values", "next_values", "02"),
    Plant(
        "returns are the advantages",
        "gae.py",
        "advantages, advantages + values",
        "advantages, advantages",
        "02",
    ),
    Plant(
        "divides by the variance",
        "whitening.py",
        "torch.rsqrt(var + EPSILON)",
        "1 / (var + EPSILON)",
        "03",
    ),
    Plant(
        "padding counts in the mean",
        "whitening.py",
        "x, 0.0).sum() / mask.sum()",
        "x, 0.0).sum() / mask.numel()",
        "03",
    ),
    Plant(
        "the mean is not put back",
        "whitening.py",
        "if shift_mean else whitened + mean",
        "if shift_mean else whitened",
        "03",
    ),
    Plant(
        "divisor n",
        "whitening.py",
        "(count - 1).clamp(min=1) if unbiased else count",
        "count",
        "03",
    ),
    Plant(
        "statistics of one process",
        "whitening.py",
        "gather(advantages), None if mask is None else gather(mask)",
        "advantages, mask",
        "13",
    ),
    Plant(
        "log-ratio reversed",
        "kl.py",
        "log_ratio = logprobs - ref_logprobs\n    if",
        "log_ratio = ref_logprobs - logprobs\n    if",
        "04",
    ),
    Plant(
        "k3 reversed",
        "kl.py",
        "torch.expm1(-log_ratio) + log_ratio",
        "torch.expm1(log_ratio) - log_ratio",
        "04",
    ),
    Plant("a reward for drifting", "kl.py", "-kl_coef * kl, 0.0", "kl_coef * kl, 0.0", "00"),
    Plant(
        "score on the last column",
        "kl.py",
        "torch.where(mask, steps, -1).amax(dim=1)",
        "steps[-1].expand(len(mask))",
        "00 02",
    ),
    Plant(
        "β moves the wrong way",
        "kl.py",
        "observed_kl / self.target - 1.0",
        "1.0 - observed_kl / self.target",
        "07",
    ),
    Plant(
        "forward KL over the vocabulary",
        "kl.py",
        "(logprobs.exp() * log_ratio)",
        "(ref_logprobs.exp() * log_ratio)",
        "01 04 07",
    ),
    Plant(
        "EOS does not count",
        "rollouts.py",
        "is_eos.cumsum(dim=1) - is_eos == 0",
        "is_eos.cumsum(dim=1) == 0",
        "01",
    ),
    Plant(
        "positions begin at 1",
        "rollouts.py",
        "return mask.cumsum(dim=1) - mask",
        "return mask.cumsum(dim=1)",
        "01",
    ),
    Plant(
        "log-probs not normalised",
        "rollouts.py",
        "chosen - logits.logsumexp(dim=-1)",
        "chosen",
        "01",
    ),
    Plant(
        "scored at another temperature",
        "rollouts.py",
        "logits if temperature == 1.0 else logits / temperature",
        "logits",
        "01",
    ),
    Plant(
        "values of the token before",
        "rollouts.py",
        "value_network(ids, mask, positions)[",
        "value_network(ids, mask, positions).roll(1, dims=1)[",
        "01 02 06",
    ),
    Plant(
        "temperature without effect",
        "sampling.py",
        "logits.float() / temperature",
        "logits.float()",
        "01",
    ),
    Plant(
        "positions stand still", "sampling.py", "positions[:, -1:] + 1", "positions[:, -1:]", "01"
    ),
    Plant(
        "prompts padded right", "sampling.py", 'padding_side="left")', 'padding_side="right")', "01"
    ),
    Plant(
        "max for min",
        "ppo.py",
        "torch.minimum(gain, clipped_gain)",
        "torch.maximum(gain, clipped_gain)",
        "04",
    ),
    Plant(
        "min for max in the critic",
        "ppo.py",
        "torch.maximum(square, clipped_square)",
        "torch.minimum(square, clipped_square)",
        "04",
    ),
    Plant(
        "clipped: all outside 1 ± ε",
        "ppo.py",
        "(clipped_gain < gain)",
        "(clipped_gain != gain)",
        "04",
    ),
    Plant(
        "approx_kl is k1",
        "ppo.py",
        "masked_mean(0.5 * log_ratio.square(), mask)",
        "masked_mean(log_ratio, mask)",
        "04",
    ),
    Plant(
        "the loss is the gain",
        "ppo.py",
        "loss = -mean(torch.minimum",
        "loss = mean(torch.minimum",
        "04",
    ),
    Plant(
        "the ratio upside down",
        "ppo.py",
        "log_ratio = torch.where(mask, logprobs - old_logprobs, 0.0)",
        "log_ratio = torch.where(mask, old_logprobs - logprobs, 0.0)",
        "04",
    ),
    Plant("entropy below 0", "ppo.py", "-products.sum(dim=-1)", "products.sum(dim=-1)", "04"),
    Plant(
        "a bonus that is a price",
        "ppo.py",
        "loss - config.entropy_coef",
        "loss + config.entropy_coef",
        "04",
    ),
    Plant(
        "variance left, not explained",
        "ppo.py",
        "1.0 - residual / variance",
        "residual / variance",
        "02 04",
    ),
    Plant(
        "gradient not clipped",
        "ppo.py",
        "clip_grad_norm_(parameters, max_grad_norm)",
        "clip_grad_norm_(parameters, 1e9)",
        "04 06",
    ),
    Plant(
        "KL in the loss not through the ratio",
        "ppo.py",
        'ratio.detach() if config.kl_loss == "k2" else ratio',
        "ratio.detach()",
        "04 10",
    ),
    Plant(
        "γ and λ swapped",
        "steps.py",
        "compute_gae(rewards, values, config.gamma, config.lam, mask)",
        "compute_gae(rewards, values, config.lam, config.gamma, mask)",
        "00 02 06",
    ),
    Plant(
        "KL in both places",
        "steps.py",
        'state.kl_coef if config.kl_placement == "reward" else 0.0',
        "state.kl_coef",
        "04 07",
    ),
    Plant(
        "the rate is not annealed",
        "steps.py",
        "left = 1.0 - state.iteration / config.iterations",
        "left = 1.0",
        "00",
    ),
    Plant(
        "one prompt a response",
        "steps.py",
        "share(order[:size]) for _ in range(group)]",
        "share(order[:size] * group)]",
        "10",
    ),
    Plant("others over K", "groups.py", "others / (group_size - 1)", "others / group_size", "10"),
    Plant(
        "std of the batch", "groups.py", "grouped.std(dim=1, keepdim=True)", "grouped.std()", "10"
    ),
    Plant(
        "mean of means is the mean",
        "groups.py",
        "(torch.where(mask, x, 0.0).sum(dim=1) / mask.sum(dim=1)).mean()",
        "torch.where(mask, x, 0.0).sum() / mask.sum()",
        "10",
    ),
    Plant("the length that was written", "groups.py", "(len(x) * length)", "mask.sum()", "10"),
    Plant("pass@k puts back", "groups.py", "/ (n - drawn)", "/ n", "10"),
    Plant(
        "a product for a mean",
        "groups.py",
        "log_ratio.sum(dim=1) / mask.sum(dim=1), mask",
        "log_ratio.sum(dim=1), mask",
        "10",
    ),
    Plant(
        "equal groups of other rows",
        "groups.py",
        ".repeat_interleave(group_size)",
        ".repeat(group_size)",
        "10",
    ),
    Plant(
        "weights of tokens for sequences",
        "off_policy.py",
        'if level == "sequence":',
        'if level == "never":',
        "10",
    ),
    Plant("no cap", "off_policy.py", "weights.clamp(max=cap)", "weights", "10"),
    Plant("no reference", "direct.py", "(logprobs - ref_logprobs.detach())", "logprobs", "11"),
    Plant(
        "prefers the rejected",
        "direct.py",
        "margin = rewards[0] - rewards[1]",
        "margin = rewards[1] - rewards[0]",
        "11",
    ),
    Plant(
        "mean log-prob of a response",
        "direct.py",
        "temperature).sum(dim=1)\n\n\ndef implicit",
        "temperature).mean(dim=1)\n\n\ndef implicit",
        "11",
    ),
    Plant("IPO's target twice", "direct.py", "1 / (2 * kl_coef)", "1 / kl_coef", "11"),
    Plant(
        "labels the other way",
        "pairs.py",
        "torch.sigmoid(first - second)",
        "torch.sigmoid(second - first)",
        "11",
    ),
    Plant(
        "Bradley–Terry reversed",
        "reward_model.py",
        "-logsigmoid(chosen - rejected)",
        "-logsigmoid(rejected - chosen)",
        "05",
    ),
    Plant(
        "reads the last token",
        "reward_model.py",
        "hidden[:, 0]",
        "hidden[:, -1]",
        "05",
    ),
    Plant(
        "scaled by the variance",
        "reward_model.py",
        "score_std.copy_(scores.std())",
        "score_std.copy_(scores.var())",
        "05",
    ),
    Plant(
        "a tie is right",
        "reward_model.py",
        "0.5 * (chosen == rejected)",
        "1.0 * (chosen == rejected)",
        "05",
    ),
    Plant("log without β", "theory/optimum.py", "(kl_coef * log_mean)", "log_mean", "07"),
    Plant(
        "times β",
        "theory/optimum.py",
        "rewards.double() / kl_coef",
        "rewards.double() * kl_coef",
        "07",
    ),
    Plant(
        "KL of the other order",
        "theory/optimum.py",
        "(torch.xlogy(probs, probs) - torch.xlogy(probs, other))",
        "(torch.xlogy(other, other) - torch.xlogy(other, probs))",
        "07 11",
    ),
    Plant(
        "the bound without its second half",
        "theory/best_of_n.py",
        "math.log(n) - (n - 1) / n, extra",
        "math.log(n), extra",
        "08",
    ),
    Plant(
        "ties are not shared",
        "theory/best_of_n.py",
        "return chosen / (high - low)",
        "return chosen",
        "08",
    ),
    Plant(
        "RLOO weighs like r − mean",
        "lessons/without_a_critic/prompt_weight.py",
        '"rloo": unbiased * variance',
        '"rloo": variance',
        "10",
    ),
    Plant(
        "late is early",
        "lessons/debugging/diagnose.py",
        "values[-max(1, len(values) // 3) :]",
        "values[: max(1, len(values) // 3)]",
        "09",
    ),
    Plant(
        "Adam keeps one moment",
        "scale/memory.py",
        'Entry(role, "Adam", 8 * trained)',
        'Entry(role, "Adam", 4 * trained)',
        "12",
    ),
]


def noticed(plant: Plant) -> str:
    """The lesson that fails with this mistake, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        course = Path(folder)
        shutil.copytree(ROOT / "helpers", course / "helpers")
        shutil.copytree(ROOT / "notebooks", course / "notebooks")
        shutil.copy(ROOT / "pyproject.toml", course)
        (course / "data").symlink_to(ROOT / "data")
        (course / "helpers" / plant.file).write_text(plant.edited(), encoding="utf-8")
        for lesson in plant.lessons.split():
            (notebook,) = (course / "notebooks").glob(f"{lesson}_*.ipynb")
            command = [sys.executable, "-m", "pytest", *NBVAL, str(notebook)]
            run = subprocess.run(command, cwd=course, capture_output=True, text=True, check=False)
            if run.returncode == 1:
                return notebook.stem
            if run.returncode != 0:
                raise RuntimeError(f"{plant.name}: nbval did not run: {run.stdout}{run.stderr}")
    return ""


def main() -> None:
    """Plant all, or those named, and print who noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="mistakes at a time (2)")
    parser.add_argument("--only", nargs="+", help="names of mistakes")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    began = time.monotonic()
    plants = [plant for plant in PLANTS if not options.only or plant.name in options.only]
    count = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for plant, lesson in zip(plants, pool.map(noticed, plants), strict=True):
            print(f"{plant.name:40} {plant.file:24} {lesson or '– not noticed'}", flush=True)
            count += bool(lesson)
    print(f"{count} of {len(plants)} noticed, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
