"""Errors of a command: one sentence and an exit status."""

import sys
from collections.abc import Callable


def menu(usage: str, what: str, lines: dict[str, str]) -> str:
    """What `--help` shows where a sub-command is still to be named: a line for each."""
    width = max(map(len, lines)) + 2
    rows = [f"  {name:{width}}{line}" for name, line in lines.items()]
    foot = f"`{usage} --help` lists the flags of one."
    return "\n".join([f"usage: {usage} [flags]", "", what, "", *rows, "", foot])


def exit_status(run: Callable[[], None], interrupted: str) -> int:
    """Run a command; returns 0, 2 for a wrong value or file (with one sentence), 130 after Ctrl-C."""
    try:
        run()
    except (ValueError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return 130
    return 0
