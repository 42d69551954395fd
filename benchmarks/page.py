"""`python -m benchmarks.page`: a policy trains in the drift page; seconds an update in node and in chromium.

`--out FOLDER`: whole runs at β = 0.1 and 0, and one that is paid for "we".
"""

import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.common import command, emit
from helpers.data import load_rows
from helpers.models import load_actor
from helpers.page.drift_page import ENGINE
from helpers.page.policies import as_script, policy_facts, reward_facts, shipped_words
from helpers.reward_model import load_reward_model
from helpers.tools.files import ROOT
from helpers.tools.flags import setting
from helpers.tools.validate import require
from tests.browser.conftest import CHROMIUM, FLAGS, FRAMES, trained
from tests.page.javascript import run as run_in_node

PAGE = (ROOT / "docs" / "index.html").as_uri()
SPANS = (4, 14, 24)  # updates; the first ones wait for compilers
LONGEST, LAST_UPDATE = 600_000, 4_000  # milliseconds
LIVE = {"beta_0.1": ("#train=0.1", 60), "beta_0": ("#train=0", 60)}  # link, updates
LIVE["paid_for_we"] = ("#train=0.1&model=0&liked=we", 20)
RECORDED = "0 ", "0.1 ", "run"  # rows of the page's table
# its trainer of the shipped models
ENGINE_TESTS = (ROOT / "tests" / "page" / "train.js").read_text("utf-8")
IN_NODE = f"""(() => {{ {ENGINE_TESTS}
  return updates => {{
    const trainer = shippedTrainer();
    return Array.from({{ length: updates }}, (_, iteration) => {{
      const began = performance.now();
      iterate(trainer, {{ klCoef: 0.1, iteration, random: Math.random }});
      return [(performance.now() - began) / 1e3, process.memoryUsage().rss / 2 ** 20];
    }});
  }};
}})()"""
WATCH_KEYS = """() => {
  const { port1, port2 } = new MessageChannel();
  window.waits = [];
  document.getElementById('beta').addEventListener('keydown', ({ timeStamp }) => requestAnimationFrame(() => {
    port1.onmessage = () => window.waits.push(performance.now() - timeStamp);
    port2.postMessage(0);
  }));
}"""


def in_node(updates: int) -> dict:
    """Seconds of an update of the page's engine alone, nothing sampled to be shown; MiB first and last."""
    prompts = [row["prompt"] for row in load_rows("prompts.jsonl", ("prompt",))]
    facts = {"reference": policy_facts(load_actor("data/sft", "cpu"), shipped_words())}
    facts["reward"] = reward_facts(load_reward_model(device="cpu"), prompts)
    files = [as_script(name, one) for name, one in facts.items()]
    seconds, memory = zip(
        *run_in_node([*ENGINE, "policy.js"], IN_NODE, updates, files)[3:], strict=True
    )
    return {"node_s": float(np.median(seconds)), "node_MiB": [memory[0], memory[-1]]}


def begin(browser: Browser, link: str, **size) -> Page:
    """The page at a link, its run begun."""
    page = browser.new_page(**size)
    page.goto(f"{PAGE}{link}&iteration=0")  # a link that names a run opens its panel
    page.locator("#train-go").press("Enter")
    trained(page, 1)
    return page


def key_to_frame(page: Page, keys: int = 60) -> list[float]:
    """Milliseconds from a key on the ruler of β to the end of the frame that shows it: median, 95 %."""
    page.evaluate(WATCH_KEYS)
    for k in range(keys):
        page.locator("#beta").press("ArrowLeft" if k % 20 < 10 else "ArrowRight")
        page.wait_for_timeout(random.uniform(20, 60))  # at any moment between two frames
    return np.percentile(page.evaluate("() => window.waits"), (50, 95)).round(1).tolist()


def in_chromium(browser: Browser) -> dict:
    """In a phone's window: seconds of an update up to the 14th, to the 24th; a key while it trains."""
    page, times = begin(browser, "#train=0.1", viewport={"width": 390, "height": 844}), []
    for updates in SPANS:
        trained(page, updates, LONGEST)
        times.append(time.perf_counter())
    facts = {"chromium_s": (np.diff(times) / np.diff(SPANS)).round(3).tolist()}
    facts["key_ms"] = {"while it trains": key_to_frame(page)}
    page.locator("#train-stop").click()
    page.wait_for_timeout(LAST_UPDATE)
    facts["key_ms"]["after"] = key_to_frame(page)
    page.close()
    return facts


def live(browser: Browser, out: Path) -> None:
    """Whole runs: their row beside the recorded ones, their text, and a picture of each."""
    for name, (link, updates) in LIVE.items():
        page = begin(browser, link, viewport={"width": 1280, "height": 1500})
        trained(page, updates, LONGEST)
        page.locator("#iteration").press("End")
        page.evaluate(FRAMES)
        rows = [" ".join(row.split()) for row in page.locator("#table tr").all_inner_texts()]
        said = [page.locator(one).inner_text() for one in ("#sample", "#times")]
        print(
            name, *rows[:1], *(row for row in rows if row.startswith(RECORDED)), *said, sep="\n  "
        )
        page.evaluate("() => scrollTo(0, 0)")
        page.screenshot(path=out / f"{name}.png", full_page=True)
        page.close()


@dataclass
class Options:
    """What is measured, and where pictures go."""

    updates: int = setting(14, "in node; the first three are not counted")
    out: str = setting("", "folder of the live runs' pictures; none: no live run")

    def __post_init__(self):
        require(CHROMIUM is not None, "page", "no chromium here", "one that runs the page")


def run(options: Options) -> None:
    """Measure and print."""
    facts = in_node(options.updates)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        facts |= in_chromium(browser)
        if options.out:
            Path(options.out).mkdir(parents=True, exist_ok=True)
            live(browser, Path(options.out))
        browser.close()
    emit("page", facts)


if __name__ == "__main__":
    command("page", __doc__, Options, run)
