"""Every control of a notebook's outputs: find it, move it once and back, say what went wrong."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from playwright.sync_api import Locator

from .conftest import holds
from .notebook_page import NotebookPage

PATIENCE = 10.0  # seconds for a picture to follow its control, on a busy machine
PATIENCE_IF_WAITING = 1.0  # the same where nothing has to follow before a button is pressed
COMPLAINT = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Problem)\b: |Traceback")

# marks every control with a number; what is hidden or switched off stays in the list and is skipped later
FIND = """() => {
  const kinds = {
    play: '.widget-play', slider: '[role=slider], input[type=range]', choice: 'select',
    tick: 'input[type=checkbox], input[type=radio]',
    text: 'input[type=text], input[type=number], textarea', button: 'button'};
  const found = [];
  for (const [kind, selector] of Object.entries(kinds))
    for (const control of document.querySelectorAll('.jp-OutputArea-output')) {
      for (const node of control.querySelectorAll(selector)) {
        if (node.dataset.control !== undefined || node.closest('.widget-play') !== null
            && kind !== 'play') continue;
        const box = node.closest('.jupyter-widgets, .widget-inline-hbox, .widget-inline-vbox') || node;
        const words = [box.querySelector('.widget-label')?.innerText, box.innerText, node.placeholder,
          node.getAttribute('aria-label')].map(text => (text || '').replace(/\u200b/g, '').trim());
        const label = words.find(text => text !== '') || '';
        node.dataset.control = found.length;
        const waits = node.closest('.waits-for-button') !== null;
        found.push({number: found.length, kind, name: label.split('\\n')[0], waits});
      }
    }
  return found;
}"""

# what a cell shows apart from its controls: texts, pictures, drawings
SHOWN = """node => {
  const area = node.closest('.jp-OutputArea');
  const drawn = [...area.querySelectorAll('canvas')].map(c => c.toDataURL()).join();
  const copy = area.cloneNode(true);
  const controls =
    '.widget-inline-hbox:not(.widget-html, .widget-htmlmath), .widget-inline-vbox, .widget-play, button';
  copy.querySelectorAll(controls).forEach(part => part.remove());
  return copy.innerHTML + drawn;
}"""

# the number beside a slider, and what the figure below says it was drawn for
READOUT = """node => node.closest('.widget-inline-hbox')?.querySelector('.widget-readout')?.innerText
  ?? node.closest('.noUi-origin')?.style.transform ?? node.getAttribute('aria-valuenow')
  ?? node.value"""  # a slider may show no number: then its place, since its label is rounded
DRAWN_FOR = """node => {
  for (let box = node; box; box = box.parentElement) {
    const drawn = box.querySelector && box.querySelector('[data-drawn-for]');
    if (drawn) return drawn.dataset.drawnFor;
    if (box.classList.contains('jp-OutputArea')) return null;
  }
}"""


@dataclass
class Control:
    """One control: its place on the page, what it is, the words beside it, whether it waits for a button."""

    notebook: NotebookPage
    number: int
    kind: str
    name: str
    waits: bool
    seen: set[str] = field(default_factory=set)

    @property
    def node(self) -> Locator:
        return self.notebook.page.locator(f"[data-control='{self.number}']")

    @property
    def area(self) -> Locator:
        """The outputs of its cell."""
        return self.node.locator("xpath=ancestor::div[contains(@class, 'jp-OutputArea')][last()]")

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"

    def changes(self, act: Callable[[], None]) -> bool:
        """Whether the cell shows something else once `act` was done; notes what it says of errors."""
        before = self.node.evaluate(SHOWN)
        act()
        patience = PATIENCE_IF_WAITING if self.waits else PATIENCE
        changed = holds(lambda: self.node.evaluate(SHOWN) != before, patience)
        alerts = self.area.locator("[role=alert]").all_inner_texts()
        lines = self.area.inner_text().splitlines() + alerts  # now: the way back may take them off
        self.seen |= set(filter(COMPLAINT.search, lines))
        return changed


def find_controls(notebook: NotebookPage) -> list[Control]:
    """Every control in the outputs, from top to bottom within its kind."""
    return [Control(notebook, **found) for found in notebook.page.evaluate(FIND)]


def move_slider(control: Control) -> Iterator[str]:
    """One key step and back; the readout and what the figure was drawn for have to agree."""
    press = control.notebook.page.keyboard.press
    told = control.node.get_attribute
    alive, at_end = False, told("aria-valuenow") == told("aria-valuemax")
    upright = told("aria-orientation") == "vertical"
    keys = ("ArrowUp", "ArrowDown") if upright else ("ArrowRight", "ArrowLeft")
    for key in reversed(keys) if at_end else keys:
        before = control.node.evaluate(READOUT)
        control.node.focus()
        alive |= control.changes(partial(press, key))
        if control.node.evaluate(READOUT) == before:
            yield f"{control}: {key} leaves it at {before}"
        if not holds(lambda: disagreement(control) is None, PATIENCE):
            yield disagreement(control) or f"{control}: its figure came late"
    if not alive and not control.waits:
        yield f"{control}: nothing changes when it moves"


def disagreement(control: Control) -> str | None:
    """A sentence where a slider says another value than its figure was drawn for."""
    drawn_for, readout = control.node.evaluate(DRAWN_FOR), control.node.evaluate(READOUT)
    if drawn_for is None or readout is None:
        return None
    drawn = json.loads(drawn_for).get(control.name)
    same = drawn == readout
    if isinstance(drawn, int | float):
        same = drawn == float(readout.replace("−", "-").replace(",", ""))
    return None if same else f"{control}: says {readout}, its figure was drawn for {drawn}"


def acts_of(control: Control) -> list[Callable[[], None]]:
    """What is done to a control that is no slider: other options and back, on and off, words and Enter."""
    node = control.node
    if control.kind == "choice":
        now = node.input_value()
        values = [option.get_attribute("value") for option in node.locator("option").all()]
        others = [value for value in values if value != now][:3]
        return [partial(node.select_option, value) for value in (*others, now)] if others else []
    if control.kind == "text":
        words = "7" if node.get_attribute("type") == "number" else "the soup"
        return [lambda: (node.fill(words), node.press("Enter"))]
    if control.kind == "play":
        return 2 * [node.locator("button").first.click]
    return (2 if control.kind == "tick" else 1) * [node.click]


def move(control: Control) -> Iterator[str]:
    """A complaint where nothing changes."""
    alive = [control.changes(act) for act in acts_of(control)]
    waits = control.waits and control.kind not in ("button", "play")
    if alive and not any(alive) and not waits:
        yield f"{control}: nothing changes"


def press_stop(control: Control) -> Iterator[str]:
    """Where a button has started something that can be stopped, a click on Stop."""
    stop = control.area.get_by_role("button", name="Stop", exact=True)
    if control.name != "Stop" and stop.count() and stop.first.is_enabled():
        stop.first.click()
        if not holds(control.node.is_enabled, 120):
            yield f"{control}: cannot be pressed again after Stop"


def try_control(control: Control) -> list[str]:
    """Move it once; every complaint as a sentence. What is hidden or switched off is left alone."""
    if not (control.node.is_visible() and control.node.is_enabled()):
        return []
    control.node.scroll_into_view_if_needed()
    heard = len(control.notebook.kernel_errors)
    said = list((move_slider if control.kind == "slider" else move)(control))
    said += press_stop(control) if control.kind == "button" else []
    said += [f"{control}: the page says {words}" for words in sorted(control.seen)]
    said += [f"{control}: the kernel says {e}" for e in control.notebook.kernel_errors[heard:]]
    return said
