"""`python -m helpers explorer`: the drift explorer as a page, served by voila or as one file."""

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from helpers.tools.command import exit_status
from helpers.tools.files import ROOT
from helpers.tools.flags import FlagParser, setting
from helpers.tools.validate import require

PAGE = ROOT / "helpers" / "page" / "drift_explorer.ipynb"


@dataclass(kw_only=True)
class ExplorerOptions:
    """How the page is served, or where it is written."""

    port: int = setting(8888, "where the page is served on this machine")
    browser: bool = setting(True, "open a browser; --no-browser only prints the address")
    export: Path | None = setting(None, "write the page as one HTML file, and serve nothing")
    policies: list[float] = setting(
        [], "with --export: β of policies that run in the page, from a folder `policies` beside it"
    )


def serve(options: ExplorerOptions) -> None:
    """Serve the page until Ctrl-C."""
    here = importlib.util.find_spec("voila") is not None
    require(here, "voila", "none", "`make explorer`, which installs it")
    flags = [f"--port={options.port}"] + ([] if options.browser else ["--no-browser"])
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    print("Where no browser opens, follow the URL below; Ctrl-C ends the server.", flush=True)
    command = [sys.executable, "-m", "voila", *flags, str(PAGE)]
    status = subprocess.call(command, env=os.environ | {"PYTHONPATH": paths})
    require(status == 0, "voila", f"exit status {status}", "0: see what it printed")


def write(path: Path, betas: list[float]) -> None:
    """Write the page as one file, and policies beside it if asked for: no network, no kernel."""
    from helpers.page import drift_page  # with torch, which `--help` can do without
    from helpers.page import policies as page_policies

    beside = page_policies.export_policies(path.parent / "policies", betas) if betas else []
    drift_page.export(path, policies=beside)
    print(f"{path}: {path.stat().st_size / 1e6:.2f} MB; open it in any browser.")


def main(arguments: list[str]) -> int:
    """The command; → its exit status."""
    what = "Open the drift explorer of notebook 07 as a web page (it needs voila), or write it as a file."
    parser = FlagParser(ExplorerOptions, prog="python -m helpers explorer", description=what)

    def show() -> None:
        options = parser.options(arguments)
        serve(options) if options.export is None else write(options.export, options.policies)

    return exit_status(show, "The server has ended.")
