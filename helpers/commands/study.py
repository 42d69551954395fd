"""`python -m helpers sweep` and `study NAME`: make the recorded runs of data/ again, or like them."""

from helpers.commands.registry import STUDIES
from helpers.studies.study import STOPPED
from helpers.tools.command import exit_status, menu
from helpers.tools.flags import FlagParser
from helpers.tools.validate import require


def run_study(name: str, command: str, arguments: list[str]) -> int:
    """Run a study by the flags of its options; → its exit status."""

    def run() -> None:
        require(name in STUDIES, "NAME", repr(name), f"one of {', '.join(STUDIES)}")
        options, work = STUDIES[name]
        parser = FlagParser(
            options, prog=f"python -m helpers {command}", description=options.__doc__
        )
        work(parser.options(arguments))

    return exit_status(run, STOPPED)


def sweep(arguments: list[str]) -> int:
    """`python -m helpers sweep`; → its exit status."""
    return run_study("beta_sweep", "sweep", arguments)


def study(arguments: list[str]) -> int:
    """`python -m helpers study NAME`; → its exit status."""
    name, *rest = arguments or ["--help"]
    if name not in ("-h", "--help"):
        return run_study(name, f"study {name}", rest)
    lines = {name: options.__doc__ for name, (options, _) in STUDIES.items()}
    print(menu("python -m helpers study NAME", "Recorded studies of the course.", lines))
    return 0
