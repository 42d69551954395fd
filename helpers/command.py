"""What every command of the course does with a problem: one sentence, and an exit status."""

import sys
from collections.abc import Callable


def exit_status(run: Callable[[], None], interrupted: str) -> int:
    """Run a command: 0, or 2 with one sentence when a value or file is bad, 130 after Ctrl-C."""
    try:
        run()
    except (ValueError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return 130
    return 0
