"""Run the page's scripts outside the page, in the node that playwright brings along."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import playwright

from helpers.page.drift_page import part

NODE = Path(playwright.__file__).parent / "driver" / "node"
IN_NODE = "console.log(JSON.stringify(({function})(JSON.parse(require('fs').readFileSync(0)))));"


def run(scripts: Sequence[str], function: str, given: object, files: Sequence[str] = ()) -> object:
    """What a JavaScript function of `given` returns, after model files and these scripts of the page."""
    before = ["globalThis.POLICY_FILES = {};", *files, *map(part, scripts)]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.cjs"
        program.write_text("\n".join([*before, IN_NODE.format(function=function)]), "utf-8")
        command = [NODE, program]
        done = subprocess.run(command, input=json.dumps(given), text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
