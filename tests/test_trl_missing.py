"""Where trl is not installed, asking for it is one sentence, and importing the bridge costs nothing."""

import pytest

from helpers import trl_bridge, trl_formulae
from helpers.config import RLHFConfig


@pytest.fixture
def without_trl(monkeypatch):
    monkeypatch.setattr(trl_formulae, "trl_is_here", lambda: False)


def test_without_trl_the_command_is_one_sentence(without_trl, tmp_path, capsys):
    assert trl_bridge.main(["--out", str(tmp_path / "x.json")]) == 2
    said = capsys.readouterr().err
    assert said == "error: trl: got none, wants `pip install trl==1.12.0`.\n"
    assert not list(tmp_path.iterdir())


def test_without_trl_its_formulae_and_settings_say_so_too(without_trl, tmp_path):
    with pytest.raises(ValueError, match="trl: got none"):
        trl_bridge.trl_config(RLHFConfig(), str(tmp_path))
    with pytest.raises(ValueError, match="trl: got none"):
        trl_formulae.run_lines("a", "b")
