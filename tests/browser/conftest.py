"""A real JupyterLab in a real chromium, with private settings; nothing outside this machine is asked."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.tools.files import ROOT

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync".split()
FLAGS += ["--disable-background-networking", "--disable-component-update"]
FLAGS += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
SETTINGS = {
    "notebook-extension:tracker": {"windowingMode": "none"},  # every cell is in the page
    "apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension:plugin": {"autosave": False},
}
FOLDERS = ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR", "JUPYTER_CONFIG_DIR")
FOLDERS += ("JUPYTER_RUNTIME_DIR", "RLHF_COURSE_WORK")
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
SAID = "document.getElementById('train-progress').innerText"
MADE = rf"updates => Number({SAID}.match(/update (\d+)/)?.[1]) >= updates"
NO_TOKEN = "--IdentityProvider.token="


def pytest_collection_modifyitems(items):
    """Without chromium these tests are skipped."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="no chromium here: browser tests skipped"))


def holds(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll until it is true; False when it never was."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def address_in(log: Path) -> str:
    """Where a server listens, once it has said so."""
    address = re.compile(r"http://127\.0\.0\.1:\d+")
    assert holds(lambda: address.search(log.read_text()), 90), log.read_text()[-2000:]
    return address.search(log.read_text())[0]


@pytest.fixture(scope="session")
def course(tmp_path_factory) -> Path:
    """The course with copies of the notebooks, so that a run changes nothing here."""
    root = tmp_path_factory.mktemp("course")
    shutil.copytree(ROOT / "notebooks", root / "notebooks")
    for name in ("helpers", "data"):
        (root / name).symlink_to(ROOT / name)
    return root


@pytest.fixture(scope="session")
def lab(course) -> Iterator[str]:
    """The address of a JupyterLab with private settings that serves the course."""
    private = Path(tempfile.mkdtemp(prefix="lab"))
    defaults = private / "JUPYTER_CONFIG_DIR" / "labconfig" / "default_setting_overrides.json"
    defaults.parent.mkdir(parents=True)
    defaults.write_text(json.dumps({f"@jupyterlab/{name}": x for name, x in SETTINGS.items()}))
    environment = os.environ | {name: str(private / name) for name in FOLDERS}
    environment["HF_HUB_OFFLINE"] = "1"
    words = [sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser", NO_TOKEN]
    with (private / "log").open("w") as log:
        server = subprocess.Popen(words, cwd=course, env=environment, stdout=log, stderr=log)
        try:
            yield address_in(private / "log")
        finally:
            server.terminate()
            server.wait(timeout=30)
            shutil.rmtree(private, ignore_errors=True)


@pytest.fixture(scope="session")
def browser():
    """One chromium for all tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


def trained(page, updates: int, milliseconds: int = 90_000) -> None:
    """Wait until the drift page's run has made so many updates."""
    page.wait_for_function(MADE, arg=updates, timeout=milliseconds)
