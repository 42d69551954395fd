"""Driving one notebook in JupyterLab: open, run, find a widget, read what it shows."""

import re
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path

import nbformat
from playwright.sync_api import Browser, ConsoleMessage

from .conftest import holds

# JupyterLab's own, on any page without a network or as root; not the course's
NOISE = re.compile(r"favicon|ERR_NAME_NOT_RESOLVED|lsp|Failed to load resource", re.IGNORECASE)

REPLY = re.compile(r'"msg_type": ?"execute_reply"')
ERROR_MESSAGE = re.compile(r'"msg_type": ?"error"')
PENDING = "[...document.querySelectorAll('.jp-InputPrompt')].some(p => p.innerText.includes('*'))"
SHUT_DOWN = """async path => {
  const token = document.cookie.match(/_xsrf=([^;]*)/)?.[1] ?? '';
  const sent = {headers: {'X-XSRFToken': token}};
  for (const session of await (await fetch('/api/sessions', sent)).json())
    if (session.path === path)
      await fetch('/api/sessions/' + session.id, {method: 'DELETE', ...sent});
}"""
EVALUE = re.compile(r'"ename": ?"([^"]*)", ?"evalue": ?"((?:[^"\\]|\\.)*)"')


class NotebookPage:
    """A page that shows the notebook at `path` below the served folder; `problems`: errors of its console.

    `kernel_errors`: all that the kernel reports, also those of callbacks, which JupyterLab shows nowhere.
    """

    def __init__(self, browser: Browser, lab: str, path: str):
        page = browser.new_page(viewport={"width": 1280, "height": 1600})
        self.page, self.path, self.replies = page, path, 0
        self.problems, self.kernel_errors = [], []
        page.on("console", self._heard)
        page.on("pageerror", lambda problem: self.problems.append(str(problem)))
        page.on("websocket", lambda socket: socket.on("framereceived", self._received))
        page.goto(f"{lab}/lab/tree/{path}?reset")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=120_000)
        page.get_by_text("| Idle").first.wait_for(timeout=120_000)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not NOISE.search(message.text):
            self.problems.append(message.text)

    def _received(self, frame: str | bytes) -> None:
        words = frame if isinstance(frame, str) else frame.decode(errors="replace")
        self.replies += REPLY.search(words) is not None
        if ERROR_MESSAGE.search(words):
            found = EVALUE.search(words)
            self.kernel_errors.append(f"{found[1]}: {found[2]}" if found else "an error")

    def run_all(self, seconds: float) -> None:
        """Run every cell and wait until none is pending."""
        before = self.replies
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        while self.replies == before:  # a saved notebook looks finished until a cell has run
            self.page.wait_for_timeout(100)
        self.page.wait_for_function(f"() => !({PENDING})", timeout=1000 * seconds)
        self.page.wait_for_timeout(1000)  # what the last cell shows

    def run_below(self, code: str) -> None:
        """Run code in a new cell at the end, and do not wait for it."""
        self.page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").last.click()
        self.page.keyboard.press("b")
        self.page.keyboard.press("Enter")
        self.page.keyboard.insert_text(code)
        self.page.keyboard.press("Control+Enter")

    def close(self) -> None:
        """Close the page and end its kernel, which would keep its memory."""
        self.page.evaluate(SHUT_DOWN, self.path)
        self.page.close()

    def errors(self) -> list[str]:
        """Tracebacks and stderr now on the page."""
        kinds = "[data-mime-type$='jupyter.stderr'], [data-mime-type$='jupyter.error']"
        return self.page.locator(kinds).all_inner_texts()

    def wait_until(self, condition, seconds: float, what: str) -> None:
        """Poll a Python condition."""
        assert holds(condition, seconds), f"waited {seconds:.0f} s for {what}"


@contextmanager
def open_cells(browser, root: Path, address: str, path: str, cells: Iterable[str]):
    """A new notebook of these cells at root/path, which is served there; all of them run."""
    cells = ["import sys; sys.path.insert(0, '..')", *cells]  # where helpers are
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(book, root / path)
    notebook = NotebookPage(browser, address, path)
    notebook.run_all(seconds=300)
    assert notebook.errors() + notebook.kernel_errors == []
    yield notebook
    notebook.close()
