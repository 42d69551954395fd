"""What a finished run leaves: before and after on the screen; table, curves and checkpoint on disk."""

import csv
from pathlib import Path

from helpers.checkpoints import save_checkpoint
from helpers.kit.figures import training_curves
from helpers.prompts import last_message
from helpers.state import RLHFState
from helpers.tools.files import atomic_file
from helpers.tools.noise import FROM_CHANCE, change, from_chance

METRICS, SHOWN = "metrics.csv", 5  # in a run's folder; texts printed


def write_csv(path: Path, history: list[dict]) -> None:
    """One row per iteration."""
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(history[-1]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)


def save_results(state: RLHFState, folder: Path) -> None:
    """`metrics.csv`, `curves.png` and a last checkpoint."""
    save_checkpoint(state, folder)
    if state.history:
        write_csv(folder / METRICS, state.history)
        with atomic_file(folder / "curves.png") as temporary:
            training_curves(state.history).savefig(temporary, dpi=120, format="png")


def readable(text: str) -> str:
    """A sampled text; of a conversation its last message and the answer, without system prompt and roles."""
    prompt = getattr(text, "prompt", "")
    asked = last_message(prompt)
    return text if asked == prompt else f"{asked} → {text.completion}"


def print_samples(before: list[str], after: list[str]) -> None:
    """The same prompts answered by the reference and by the trained policy."""
    for old, new in zip(before, after, strict=False):
        print(f"  before  {readable(old)}\n  after   {readable(new)}\n")


def print_comparison(before: dict, after: dict) -> None:
    """Means before and after, and the change with its standard error."""
    wide = max(12, *(len(name) for name in before))
    titles = "".join(f" {title:>9s}" for title in ("before", "after", "change"))
    print(f"{'':{wide}s}{titles} ± standard error")
    for name, old in before.items():
        new = after[name]
        moved, error = change(old, new)
        noise = FROM_CHANCE if from_chance(moved, error, len(new)) else ""
        means = f" {old.mean():9.3f} {new.mean():9.3f} {moved:+9.3f} ± {error:<14.3f}"
        print(f"{name:{wide}s}{means}  {noise}".rstrip())


def print_metrics(history: list[dict], rows: int = 7) -> None:
    """A table of some iterations, first and last among them."""
    names = [name for name in history[0] if name not in ("seconds", "first_ratio_error")]
    step = max(1, (len(history) - 1) // (rows - 1))
    picked = history[::step]
    picked = picked if picked[-1] is history[-1] else [*picked, history[-1]]
    for name in names:
        print(f"{name:>20s}" + "".join(f" {record[name]:>10.4g}" for record in picked))
