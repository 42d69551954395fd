"""Errors of a command: one sentence and an exit status."""

import sys
from collections.abc import Callable


def choose(
    usage: str,
    what: str,
    lines: dict[str, str],
    run: Callable[[str, list[str]], int],
    arguments: list[str],
) -> int:
    """Run the sub-command named first with what follows; `--help` shows a line for each. → exit status."""
    name, *rest = arguments or ["--help"]
    if name in lines:
        return run(name, rest)
    if name not in ("-h", "--help"):
        known = f"wants one of {', '.join(lines)}"
        print(f"error: {usage.split()[-1]}: got {name!r}, {known}.", file=sys.stderr)
        return 2
    rows = [f"  {one:{max(map(len, lines)) + 2}}{line}" for one, line in lines.items()]
    foot = f"`{usage} --help` lists the flags of one."
    print("\n".join([f"usage: {usage} [flags]", "", what, "", *rows, "", foot]))
    return 0


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
