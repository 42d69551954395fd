"""The drift page as a file: its numbers are the recorded ones, it stands alone, no text can break out."""

import base64
import json
import re
import zlib
from dataclasses import replace

import pytest

from helpers.commands import explorer
from helpers.kit.style import PARTS
from helpers.models import load_tokenizer
from helpers.page import drift_page
from helpers.studies.beta_sweep import load_sweep
from helpers.studies.drift import run_curves
from helpers.tools.files import ROOT

SHIPPED = ROOT / "docs" / "index.html"
MOST = 1_500_000  # bytes


@pytest.fixture(scope="module")
def sweep():
    return load_sweep()


@pytest.fixture(scope="module")
def written(sweep, tmp_path_factory) -> str:
    """The page as it is written now."""
    path = tmp_path_factory.mktemp("page") / "drift.html"
    drift_page.export(path, sweep)
    return path.read_text("utf-8")


def records(html: str) -> dict:
    """The JSON that the page holds."""
    found = re.search(r'<script type="application/json" id="records">(.*?)</script>', html, re.S)
    return json.loads(found.group(1))


@pytest.fixture(scope="module")
def facts(written) -> dict:
    return records(written)


def each_run(sweep, facts):
    """(recorded run, the page's run) for every β and seed."""
    for beta, row in zip(facts["betas"], facts["runs"], strict=True):
        for seed, run in zip(facts["seeds"], row, strict=True):
            yield sweep.run(beta, seed), run


def test_it_has_every_trained_beta_seed_and_prompt_and_no_mixture(sweep, facts):
    shown = sorted({run.config.seed for run in sweep.runs if run.snapshots})
    assert (facts["betas"], facts["seeds"]) == (sweep.betas, shown)
    assert facts["prompts"] == list(sweep.runs[0].snapshots[0].next_logprobs)
    assert facts["command"] == sweep.facts["command"]


def test_every_number_is_the_recorded_one(sweep, facts):
    for recorded, run in each_run(sweep, facts):
        for name, column in (("proxy", "score"), ("gold", "gold"), ("kl", "kl")):
            assert run[name] == [*recorded.column(column), recorded.final[column]]


def test_every_text_and_its_drift_are_the_recorded_ones(sweep, facts):
    for recorded, run in each_run(sweep, facts):
        assert [s.iteration for s in recorded.snapshots] == [s["iteration"] for s in run["shots"]]
        for snapshot, shot in zip(recorded.snapshots, run["shots"], strict=True):
            for prompt, rows in zip(facts["prompts"], shot["samples"], strict=True):
                for sample, row in zip(snapshot.samples[prompt], rows, strict=True):
                    proxy, gold, numbers, tenths = row
                    assert (proxy, gold) == (sample.score, sample.gold)
                    assert [facts["words"][n] for n in numbers] == sample.tokens
                    assert [x / 10 for x in tenths] == pytest.approx(sample.drift, abs=0.0501)


def test_next_words_are_the_recorded_probabilities(sweep, facts):
    find = load_tokenizer(sweep.runs[0].config.actor).convert_tokens_to_ids
    tokens = [find(words) for words in facts["nextWords"]]
    assert {len(set(some)) for some in tokens} == {drift_page.NEXT_WORDS}
    for recorded, run in each_run(sweep, facts):
        for snapshot, shot in zip(recorded.snapshots, run["shots"], strict=True):
            for prompt, shown, some in zip(facts["prompts"], shot["next"], tokens, strict=True):
                probs = snapshot.next_logprobs[prompt].exp()[some]
                assert shown == pytest.approx((1000 * probs).tolist(), abs=0.501)


def test_optima_and_the_frontier_are_the_sweep_s(sweep, facts):
    for beta, shown in zip(facts["betas"], facts["optima"], strict=True):
        best = sweep.optimum(beta)
        assert (shown is None) == (best is None)
        if best is not None:
            wanted = [best.value, best.kl, best.score]
            assert [shown[n] for n in ("value", "kl", "score")] == pytest.approx(wanted, rel=1e-4)
    distances = [kl for kl, _ in facts["frontier"]]
    assert distances == sorted(distances) and len(distances) > 10


def test_proxy_and_gold_disagree_about_every_pair_that_is_asked(facts):
    asked = [row[0] for row in facts["rounds"]]
    assert len(asked) > 2 and asked == sorted(set(asked)) and asked[-1] < len(facts["prompts"])
    for prompt, *two in facts["rounds"]:
        one, other = (
            facts["runs"][beta][seed]["shots"][-1]["samples"][prompt][number]
            for beta, seed, number in two
        )
        assert one[0] > other[0] and one[1] < other[1]


def test_a_notebook_s_page_asks_only_about_texts_that_it_has(facts):
    few = drift_page.fewer(facts)
    shots = few["runs"][0][0]["shots"]
    kept = [place for pair in few["rounds"] for place in pair[1:]]
    assert kept and all(seed == 0 and number < 2 for _, seed, number in kept)
    assert max(len(rows) for rows in shots[-1]["samples"]) == 2


def test_the_shipped_page_is_the_one_that_the_command_writes(tmp_path):
    again = tmp_path / "index.html"
    explorer.write(again, [0.0, 0.03, 0.1, 1.0])
    says = "wants `python -m helpers explorer --export docs/index.html --policies 0 0.03 0.1 1`"
    files = sorted(path.name for path in (tmp_path / "policies").iterdir())
    assert files == sorted(path.name for path in (SHIPPED.parent / "policies").iterdir()), says
    for name in ("index.html", *(f"policies/{file}" for file in files)):
        assert (SHIPPED.parent / name).read_bytes() == (tmp_path / name).read_bytes(), says
    assert SHIPPED.stat().st_size <= MOST
    assert sum(path.stat().st_size for path in SHIPPED.parent.rglob("*.*")) < 12_000_000


def test_it_asks_no_network_for_anything(written):
    assert re.findall(r"https?:|//[a-z]+\.|\bimport\b|\bfetch\(|\bsrc=|url\(", written) == []
    links = re.findall(r'href="(.*?)"', written)
    assert "default-src 'none'" in written and links == ["data:,", "choosing_beta.md"]
    assert (SHIPPED.parent / links[1]).is_file()


def test_no_text_of_a_run_can_end_the_script(sweep):
    evil = "</script><script>alert(1)</script><!--"
    html = drift_page.page({"words": [evil], "command": evil})
    assert records(html) == {"words": [evil], "command": evil}
    assert html.count("</script>") == 3 and "alert(1)</" not in html and "<!--" not in html


def test_scripts_insert_texts_as_text_only():
    own = {*drift_page.SCRIPTS, *drift_page.ENGINE}
    scripts = "".join(drift_page.part(name) for name in (*own, "output.js"))
    wrong = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function"
    assert re.findall(wrong, scripts) == []
    others = {"page.html", "page.css", "shell.html", "widget.js", "widgets.css", "output.js"}
    found = {path for path in PARTS.rglob("*.*") if path.suffix in (".js", ".css", ".html")}
    assert {path.relative_to(PARTS).as_posix() for path in found} == own | others
    assert re.findall(wrong, drift_page.part("widget.js")) == []


def test_packed_for_a_notebook_it_is_the_same_page(facts):
    shell = drift_page.page(facts, embedded=True)
    (packed,) = re.findall(r'id="packed">(.*?)</script>', shell)
    html = zlib.decompress(base64.b64decode(packed)).decode()
    assert html == drift_page.page(facts).replace('lang="en"', 'lang="en" data-embedded')


def test_what_was_not_measured_is_nothing_and_no_nan(sweep):
    run = sweep.runs[0]
    history = [{k: v for k, v in row.items() if k != "gold"} for row in run.history]
    drift = drift_page.Drift(replace(sweep, runs=[replace(run, history=history)]))
    rows = [[0, 1] for _ in drift.prompts]
    shown = drift_page.run_facts(drift.sweep.runs[0], drift.prompts, rows, {})
    assert shown["gold"] == [None] * len(history) + [run.final["gold"]]
    assert len(run_curves(run)["kl"]) == len(shown["kl"])
    drift_page.script_json(shown)
