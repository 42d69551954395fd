"""Lines and tokens of Python, room by room, beside the most that each may have: `make lint` fails above.

A ceiling is where a room stands, its goal where it is going. A change may lower a ceiling; one that raises it
says why. Tokens are printed so that nobody saves lines by writing longer ones.
"""

import sys
import tokenize
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {  # folders or files, the first that fits: (ceiling, goal)
    "helpers/lessons/": (8_870, 9_000),
    "helpers/kit/": (4_071, 2_500),
    "helpers/studies/": (1_444, 700),
    "helpers/page/": (713, 700),
    "helpers/scale/": (1_356, 1_300),
    "helpers/world/": (1_250, 1_000),
    "helpers/theory/": (191, 500),
    "helpers/tools/": (896, 700),
    "helpers/commands/": (1_142, 600),
    "helpers/": (3_875, 3_700),
    "tests/": (19_036, 18_000),
    "benchmarks/": (1_797, 1_800),
}
BLANK = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def sizes() -> dict[str, tuple[int, int]]:
    """Lines and tokens of each room; lines include comments and blank lines."""
    found = dict.fromkeys(ROOMS, (0, 0))
    for path in chain(*((ROOT / top).rglob("*.py") for top in ("helpers", "tests", "benchmarks"))):
        name = path.relative_to(ROOT).as_posix()
        room = next(room for room in ROOMS if name.startswith(room))
        with path.open("rb") as file:
            tokens = sum(token.type not in BLANK for token in tokenize.tokenize(file.readline))
        lines = len(path.read_text(encoding="utf-8").splitlines())
        found[room] = found[room][0] + lines, found[room][1] + tokens
    return found


def main() -> int:
    """Print the table; 1 if a room is above its ceiling."""
    found, above = sizes(), []
    print(f"{'room':<20}{'lines':>8}{'ceiling':>9}{'goal':>8}{'tokens':>9}")
    for room, (lines, tokens) in found.items():
        ceiling, goal = ROOMS[room]
        name = "open files" if room == "helpers/" else room
        print(f"{name:<20}{lines:>8,}{ceiling:>9,}{goal:>8,}{tokens:>9,}")
        above += [name] * (lines > ceiling)
    helpers = sum(lines for room, (lines, _) in found.items() if room.startswith("helpers/"))
    print(f"{'helpers in all':<20}{helpers:>8,}")
    if above:
        print(f"above the ceiling: {', '.join(above)}. Give lines back, or say why in .ci/lines.py")
    return bool(above)


if __name__ == "__main__":
    sys.exit(main())
