"""What a finished run leaves: before and after on the screen; table, curves and checkpoint on disk."""

import csv
import io
from pathlib import Path

from helpers.checkpoints import save_checkpoint
from helpers.plots import training_curves
from helpers.state import RLHFState
from helpers.tools.files import atomic_file, write_text


def write_csv(path: Path, history: list[dict]) -> None:
    """One row per iteration."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(history[-1]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    write_text(path, buffer.getvalue())


def save_results(state: RLHFState, folder: Path) -> None:
    """`metrics.csv`, `curves.png` and a last checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    save_checkpoint(state, folder)
    if state.history:
        write_csv(folder / "metrics.csv", state.history)
        with atomic_file(folder / "curves.png") as temporary:
            training_curves(state.history).savefig(temporary, dpi=120, format="png")


def print_samples(before: list[str], after: list[str], count: int = 5) -> None:
    """The same prompts answered by the reference and by the trained policy."""
    for old, new in list(zip(before, after, strict=True))[:count]:
        print(f"  before  {old}\n  after   {new}\n")


def print_comparison(before: dict, after: dict) -> None:
    """Means before and after, and the change in standard deviations of the reference."""
    print(f"{'':12s}{'before':>9s}{'after':>9s}{'change':>9s}   in reference std")
    for name, old in before.items():
        new = after[name]
        change = float(new.mean() - old.mean())
        spread = float(old.std())  # 0 where all are equal, as when no answer was right
        scaled = f"{change / spread:+9.2f}" if name != "kl" and spread > 0 else ""
        print(f"{name:12s}{old.mean():9.3f}{new.mean():9.3f}{change:+9.3f}   {scaled}")


def print_metrics(history: list[dict], rows: int = 7) -> None:
    """A table of some iterations, first and last among them."""
    names = [name for name in history[0] if name not in ("seconds", "first_ratio_error")]
    step = max(1, (len(history) - 1) // (rows - 1))
    picked = history[::step]
    picked = picked if picked[-1] is history[-1] else [*picked, history[-1]]
    for name in names:
        print(f"{name:>20s} " + "".join(f"{record[name]:>10.4g}" for record in picked))
