"""The one command: `python -m helpers` lists its sub-commands, each of which has a `--help`."""

import sys
from pkgutil import resolve_name

from helpers.tools.command import choose

TRAIN, STUDY = "helpers.commands.train", "helpers.commands.study"
COMMANDS = {  # name → (who runs it: (arguments) → exit status, what it does)
    "train": (f"{TRAIN}:train", "train a policy, show what changed, save it"),
    "trace": (f"{TRAIN}:trace", "print the seven steps of one iteration, tensor by tensor"),
    "weights": ("helpers.commands.weights:main", "write a model as a folder that --actor takes"),
    "direct": ("helpers.commands.direct:main", "learn from preference pairs: DPO, IPO"),
    "sweep": (f"{STUDY}:sweep", "train at many β and seeds, and print the table"),
    "study": (f"{STUDY}:study", "make one of the recorded studies again, by its name"),
    "distributed": ("helpers.commands.distributed:main", "train in several processes"),
    "explorer": ("helpers.commands.explorer:main", "the drift explorer, as a web page of one file"),
    "diagnose": (
        "helpers.commands.diagnose:main",
        "say what may be wrong in a run's log, TRL's too",
    ),
    "colab": ("helpers.tools.colab:main", "write Colab badges that lead to this repository"),
    "data": ("helpers.world.build:main", "rebuild data/: corpus, models, preference pairs"),
}


def run(name: str, arguments: list[str]) -> int:
    """Run a sub-command; → its exit status."""
    if sys.stderr.isatty() and "--help" not in arguments:  # for some seconds nothing else is shown
        print("Loading torch and transformers …", file=sys.stderr, flush=True)
    return resolve_name(COMMANDS[name][0])(arguments)


def main(arguments: list[str] | None = None) -> int:
    """The command; → its exit status."""
    lines = {name: what for name, (_, what) in COMMANDS.items()}
    about = "python -m helpers COMMAND", "RLHF, from the command line."
    return choose(*about, lines, run, sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
