"""Run the page's scripts outside the page: in node, else in chromium."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers.page.drift_page import part

NODE = shutil.which("node")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_javascript = pytest.mark.skipif(
    NODE is None and CHROMIUM is None, reason="neither node nor chromium here: no script is run"
)
IN_NODE = "console.log(JSON.stringify(({function})(JSON.parse(require('fs').readFileSync(0)))));"


def run(scripts: Sequence[str], function: str, given: object, files: Sequence[str] = ()) -> object:
    """What a JavaScript function of `given` returns, after model files and these scripts of the page."""
    before = ["globalThis.POLICY_FILES = {};", *files, *map(part, scripts)]
    if NODE is None:
        return _in_chromium(before, function, given)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.cjs"
        program.write_text("\n".join([*before, IN_NODE.format(function=function)]), "utf-8")
        command = [NODE, str(program)]
        done = subprocess.run(command, input=json.dumps(given), text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _in_chromium(before: list[str], function: str, given: object) -> object:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.add_script_tag(content="\n".join(before))
        return page.evaluate(function, given)
