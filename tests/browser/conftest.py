"""A real JupyterLab in a real chromium, with private settings; nothing outside this machine is asked."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.tools.files import ROOT

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync".split()
FLAGS += ["--disable-background-networking", "--disable-component-update"]
FLAGS += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # every cell is in the page
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
SAID = "document.getElementById('train-progress').innerText"
MADE = rf"updates => Number({SAID}.match(/update (\d+)/)?.[1]) >= updates"
NO_TOKEN = "--IdentityProvider.token="


def pytest_collection_modifyitems(items):
    """Without chromium these tests are skipped."""
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.fspath).parents:
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="no chromium here: browser tests skipped"))


def address_in(log: Path, seconds: float = 90) -> str:
    """Where a server listens, once it has said so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text()):
            return found[0]
        time.sleep(0.3)
    raise TimeoutError(f"No server within {seconds:.0f} s: {log.read_text()[-2000:]}")


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
    for name, values in SETTINGS.items():
        extension, plugin = name.split("/")
        path = private / "settings" / "@jupyterlab" / extension
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{plugin}.jupyterlab-settings").write_text(json.dumps(values))
    environment = os.environ | {
        "JUPYTERLAB_SETTINGS_DIR": str(private / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(private / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(private / "config"),
        "JUPYTER_RUNTIME_DIR": str(private / "runtime"),
        "RLHF_COURSE_WORK": str(private / "work"),
        "HF_HUB_OFFLINE": "1",
    }
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
