"""Where trl is not installed, asking for it is one sentence, and importing the bridge costs nothing."""

import subprocess
import sys

from helpers.storage import ROOT

WITHOUT = "import sys; sys.modules['trl'] = None; import importlib.util as u; real = u.find_spec; "
WITHOUT += "u.find_spec = lambda name, *a: None if name == 'trl' else real(name, *a); "


def test_without_trl_the_command_is_one_sentence(tmp_path):
    code = WITHOUT + "from helpers.trl_bridge import main; "
    code += f"sys.exit(main(['--out', {str(tmp_path / 'x.json')!r}]))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "trl: got none, wants `pip install trl==1.12.0`." in done.stderr
