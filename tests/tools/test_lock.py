"""CI's lock and constraints.txt name the same versions; each package has its hash."""

import re

from helpers.tools.files import ROOT

LOCK = (ROOT / ".ci/lock.txt").read_text("utf-8").splitlines()
LINE = re.compile(r"([\w.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")


def test_every_package_has_a_hash_and_the_version_of_the_constraints():
    assert re.fullmatch(r"# 3\.\d+ \w+ \w+; made by `make lock`", LOCK[0])
    locked = {match[1].lower(): match[2] for match in map(LINE.fullmatch, LOCK[1:])}
    assert len(locked) == len(LOCK[1:]) > 100 and list(locked) == sorted(locked)
    wanted = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if "==" in line and not line.startswith("#")
    )
    assert "torch" not in locked  # its build depends on the machine
    for name, version in wanted.items():
        assert name == "torch" or locked[name.lower()] == version, name
