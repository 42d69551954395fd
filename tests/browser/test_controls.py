"""The run over every control finds what is planted on a page, and nothing on widgets that are sound."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import serve_lab
from .controls import find_controls, try_control
from .notebook_page import open_cells

pytestmark = [pytest.mark.timeout(300), pytest.mark.nightly]  # with the run they stand beside

# plain ipywidgets, so that the page is up in seconds; each widget is named by its description
START = """
import json
import ipywidgets

def page(kind, name, answer, **settings):
    control, shown = getattr(ipywidgets, kind)(description=name, **settings), ipywidgets.HTML()
    def follow(change=None):
        shown.value = answer(control.value)
    control.observe(follow, names="value")
    follow()
    return ipywidgets.VBox([control, shown])

def drawn(name, value):
    return f"<span data-drawn-for='{json.dumps({name: value})}'>drawn for {value}</span>"
"""
SOUND = {
    "whole": "page('IntSlider', 'whole', lambda x: drawn('whole', x), value=8, max=20)",
    "half": "page('FloatSlider', 'half', lambda x: drawn('half', x), value=0.5, max=2, step=0.25)",
    "upright": "page('FloatSlider', 'upright', str, value=0.25, max=1, step=0.01,"
    " orientation='vertical', readout=False)",
    "named": "page('SelectionSlider', 'named', lambda x: drawn('named', x), options=['a', 'b', 'c'])",
    "choice": "page('Dropdown', 'choice', str, options=['a', 'b'])",
    "tick": "page('Checkbox', 'tick', str)",
    "typed": "page('Text', 'typed', str, continuous_update=False)",
    "waiting": """
waiting = ipywidgets.IntSlider(description='waiting')
waiting.add_class('waits-for-button')
waiting""",
    "button": """
button, said = ipywidgets.Button(description='button'), ipywidgets.HTML()
def say(_):
    said.value = 'pressed'
button.on_click(say)
ipywidgets.VBox([button, said])""",
}
FAULTY = {  # source, and the complaint that it has to bring
    "dead": ("ipywidgets.IntSlider(description='dead')", "nothing changes when it moves"),
    "dead choice": (
        "ipywidgets.Dropdown(options=['a', 'b'], description='dead choice')",
        "nothing changes with another option",
    ),
    "dead button": (
        "ipywidgets.Button(description='dead button')",
        "nothing changes after a click",
    ),
    "off by one": (
        "page('FloatSlider', 'off by one', lambda x: drawn('off by one', int(x - 1e-9)),"
        " value=8, max=20, step=1, readout_format='.0f')",
        "says 9, its figure was drawn for 8",
    ),
    "raises": (
        "page('IntSlider', 'raises', lambda x: str(1 / (x - 9)), value=8)",
        "the kernel says ZeroDivisionError: division by zero",
    ),
    "says an error": (
        "page('IntSlider', 'says an error', value=8,"
        " answer=lambda x: '' if x == 8 else f'<div role=alert>ValueError: got {x}</div>')",
        "the page says ValueError: got 9",
    ),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[tuple[Path, str]]:
    """A folder of notebooks, and the address of the JupyterLab that shows it."""
    folder = tmp_path_factory.mktemp("planted")
    with serve_lab(folder) as address:
        yield folder, address


@pytest.fixture(scope="module")
def controls(browser, served):
    """The controls of one notebook that shows every widget above: name → Control."""
    sources = (START, *SOUND.values(), *(source for source, _ in FAULTY.values()))
    with open_cells(browser, *served, "planted.ipynb", sources) as notebook:
        assert notebook.problems == []
        # these are plain widgets, which answer at once
        yield {control.name: control for control in find_controls(notebook, patience=2)}


def test_every_control_of_the_page_is_found(controls):
    assert set(controls) == set(SOUND) | set(FAULTY)


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_control_is_let_pass(controls, name):
    assert try_control(controls[name]) == []


@pytest.mark.parametrize("name", FAULTY)
def test_a_planted_fault_is_found(controls, name):
    _, complaint = FAULTY[name]
    assert any(complaint in said for said in try_control(controls[name])), complaint
