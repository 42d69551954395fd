"""Write .ci/lock.txt: every package of CI's environment, in its version, with the hash of its file.

`make lock`, after requirements or constraints have changed. torch is left out: which of its builds is
installed, and so its hash, depends on the machine; constraints.txt says its version. The lock is of one
platform (its first line names it); elsewhere CI takes constraints.txt, as readers do.
"""

import json
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / ".ci/lock.txt"


def this_platform() -> str:
    """What the wheels depend on: "3.11 Linux x86_64"."""
    version = ".".join(map(str, sys.version_info[:2]))
    return f"{version} {platform.system()} {platform.machine()}"


def resolved() -> list[dict]:
    """What pip would install into an empty environment."""
    lists = ["-r", "requirements.txt", "-r", "tests/requirements.txt", "-c", "constraints.txt"]
    ask = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    done = subprocess.run(
        [*ask, "--report", "-", *lists], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)["install"]


def lines(packages: list[dict]) -> list[str]:
    """One requirement a package, by name."""
    found = {}
    for package in packages:
        name, version = (package["metadata"][key] for key in ("name", "version"))
        digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
        found[name.lower()] = f"{name}=={version} --hash=sha256:{digest}"
    return [found[name] for name in sorted(found) if name != "torch"]


if __name__ == "__main__":
    head = f"# {this_platform()}; made by `make lock`\n"
    LOCK.write_text(head + "\n".join(lines(resolved())) + "\n", encoding="utf-8")
    print(f"{LOCK.relative_to(ROOT)}: {this_platform()}")
