"""The drift page as a file: its numbers are the recorded ones, it stands alone, no text can break out."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from helpers.commands import explorer
from helpers.kit.style import PARTS
from helpers.lessons.real_models.drift_records import GLUE, real_records
from helpers.lessons.real_models.reward_study import BETAS, load_real_reward
from helpers.models import load_tokenizer
from helpers.page import drift_page
from helpers.tools.files import ROOT
from tests.page.javascript import run as run_in_node

SHIPPED = ROOT / "docs" / "index.html"  # the one that is written now: a test below asks for that
MOST = 1_500_000  # bytes


def records(html: str, world: str = "") -> dict:
    """The JSON that the page holds, of its first world or of another: "-real"."""
    start = rf'<script type="application/json" id="records{world}">'
    return json.loads(re.search(f"{start}(.*?)</script>", html, re.S).group(1))


@pytest.fixture(scope="module")
def facts() -> dict:
    return records(SHIPPED.read_text("utf-8"))


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


def test_every_number_text_with_its_drift_and_next_word_is_the_recorded_one(sweep, facts):
    find = load_tokenizer(sweep.runs[0].config.actor).convert_tokens_to_ids
    tokens = [find(words) for words in facts["nextWords"]]
    assert {len(set(some)) for some in tokens} == {drift_page.NEXT_WORDS}
    for recorded, run in each_run(sweep, facts):
        for name, column in (("proxy", "score"), ("gold", "gold"), ("kl", "kl")):
            assert run[name] == [*recorded.column(column), recorded.final[column]]
        for snapshot, shot in zip(recorded.snapshots, run["shots"], strict=True):
            assert snapshot.iteration == shot["iteration"]
            asked = zip(facts["prompts"], shot["samples"], shot["next"], tokens, strict=True)
            for prompt, rows, shown, some in asked:
                probs = snapshot.next_logprobs[prompt].exp()[some]
                assert shown == pytest.approx((1000 * probs).tolist(), abs=0.501)
                for sample, row in zip(snapshot.samples[prompt], rows, strict=True):
                    proxy, gold, numbers, tenths = row
                    assert (proxy, gold) == (sample.score, sample.gold)
                    assert [facts["words"][n] for n in numbers] == sample.tokens
                    assert [x / 10 for x in tenths] == pytest.approx(sample.drift, abs=0.0501)


def test_optima_and_the_frontier_are_the_sweep_s(sweep, facts):
    for beta, shown in zip(facts["betas"], facts["optima"], strict=True):
        best = sweep.optimum(beta)
        assert (shown is None) == (best is None)
        if best is not None:
            wanted = [best.value, best.kl, best.score]
            assert [shown[n] for n in ("value", "kl", "score")] == pytest.approx(wanted, rel=1e-4)
    distances = [kl for kl, _ in facts["frontier"]]
    assert distances == sorted(distances) and len(distances) > 10


def test_the_second_world_is_the_study_of_real_weights():
    study, facts = load_real_reward(), records(SHIPPED.read_text("utf-8"), "-real")
    assert len(json.dumps(facts)) < 500_000 and facts["betas"] == sorted(BETAS)
    for beta, found in zip(facts["betas"], facts["runs"], strict=True):
        for seed, shown in zip(facts["seeds"], found, strict=True):
            run, rows = study.run(f"beta_{beta:g}", seed), study.rows(f"beta_{beta:g}", seed)
            means = [*run.history, None]
            for row, shot in zip(rows, shown["shots"], strict=True):
                means[row["iteration"]] = row
                check_texts(facts, shot, row)
            for name, column in (("proxy", "score"), ("gold", "gold"), ("kl", "kl")):
                assert shown[name] == [row[column] for row in means]
            assert shown["heldOut"] == [row["iteration"] for row in rows] == [0, 10, 20, 30]
            assert shown["smooth"][::10] == [row["gold"] for row in rows]
            assert sum(shown["smooth"][10:21:5]) == pytest.approx(3 * shown["smooth"][15], rel=1e-4)
            best, final = shown["optimum"], run.final
            assert (best is None) == (beta < 0.3)
            if best is not None:
                assert best["value"] == final["optimum"]["mean"]
                assert best["score"] - beta * best["kl"] == pytest.approx(best["value"], abs=1e-4)


def check_texts(facts, shot, row):
    """The page's texts are the recorded ones: letters, scores, drift, where they were measured."""
    assert shot["iteration"] == row["iteration"]
    asked = zip(facts["prompts"], shot["samples"], row["samples"], strict=True)
    for prompt, ((proxy, gold, numbers, tenths),), kept in asked:
        tokens = [" " + facts["words"][n] for n in numbers]
        text = prompt + "".join(tokens).replace(f" {GLUE}", "")
        assert (text, proxy, gold) == (kept["text"], kept["score"], kept["gold"])
        drift = np.subtract(kept["logprobs"], kept["ref_logprobs"])
        assert np.divide(tenths, 10) == pytest.approx(drift, abs=0.0501)


def test_a_seed_with_every_beta_is_shown_and_of_another_the_ends():
    study = load_real_reward()
    whole = [run for run in study.runs if run.config.seed == 0]
    others = [replace(run, config=replace(run.config, seed=5)) for run in whole]
    study.runs = whole + [run for run in others if run.kind != "beta_0.1"]
    facts = real_records(study)
    assert facts["seeds"] == [0] and {end["seed"] for end in facts["otherEnds"]} == {5}
    assert "another seed" in facts["texts"]["others"]
    study.runs = whole + others
    facts = real_records(study)
    assert (facts["seeds"], facts["otherEnds"], facts["texts"]["others"]) == ([0, 5], [], "")
    assert all(one == other and len(one["shots"]) == 4 for one, other in facts["runs"])


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
    explorer.main(["--export", str(again), "--policies", "0", "0.03", "0.1", "1"])
    says = "wants `python -m helpers explorer --export docs/index.html --policies 0 0.03 0.1 1`"
    files = sorted(path.name for path in (tmp_path / "policies").iterdir())
    assert files == sorted(path.name for path in (SHIPPED.parent / "policies").iterdir()), says
    for name in ("index.html", *(f"policies/{file}" for file in files)):
        assert (SHIPPED.parent / name).read_bytes() == (tmp_path / name).read_bytes(), says
    assert SHIPPED.stat().st_size <= MOST
    assert sum(path.stat().st_size for path in SHIPPED.parent.rglob("*.*")) < 12_000_000


def test_it_asks_no_network_for_anything():
    written = SHIPPED.read_text("utf-8")
    assert re.findall(r"https?:|//[a-z]+\.|\bimport\b|\bfetch\(|\bsrc=|url\(", written) == []
    links = re.findall(r'href="([^#].*?)"', written)  # to others than itself
    assert "default-src 'none'" in written and links == ["data:,", "choosing_beta.md"]
    assert (SHIPPED.parent / links[1]).is_file()


def test_no_text_of_a_run_can_end_the_script():
    evil = "</script><script>alert(1)</script><!--"
    html = drift_page.page({"words": [evil], "command": evil})
    assert records(html) == {"words": [evil], "command": evil}
    assert html.count("</script>") == 3 and "alert(1)</" not in html and "<!--" not in html


def test_scripts_insert_texts_as_text_only():
    own = {*drift_page.SCRIPTS, *drift_page.ENGINE}
    scripts = "".join(drift_page.part(name) for name in (*own, "output.js", "widget.js"))
    wrong = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function"
    assert re.findall(wrong, scripts) == []
    others = {"page.html", "page.css", "shell.html", "widget.js", "widgets.css", "output.js"}
    found = {path for path in PARTS.rglob("*.*") if path.suffix in (".js", ".css", ".html")}
    assert {path.relative_to(PARTS).as_posix() for path in found} == own | others


# ---- the sentence above the numbers ----

STORY = ["train/rloo.js", "gold.js", "records.js", "story.js"]
AROUND = """const location = { hash: "" }, matchMedia = () => null, document = { getElementById };
function getElementById(id) { return id === "records" ? { textContent: JSON.stringify(FACTS) } : null; }"""
SENTENCES = """() => DATA.runs.flatMap((row, beta) => row.map((run, seed) => {
  const ends = DATA.runs.map((runs) => [runs[seed].gold.at(-1), runs[seed].kl.at(-1)]);
  return [run.kl.map((_, iteration) => story({ beta, seed, iteration })), { ...run, ends }];
}))"""


def sentences(facts) -> list[tuple[str, int, dict]]:
    """(sentence, update, the run's records and `ends` of its seed: [gold, KL]) of every state."""
    page = [f"const FACTS = {json.dumps(facts)};", AROUND]
    found = run_in_node(STORY, SENTENCES, None, page)
    return [(words, at, told) for said, told in found for at, words in enumerate(said)]


@pytest.fixture(scope="module")
def told(facts):
    return sentences(facts)


def rolling(values: list[float]) -> list[float]:
    """Means over five neighbours: no single value of 128 responses decides."""
    windows = [values[max(0, at - 2) : at + 3] for at in range(len(values))]
    return [sum(some) / len(some) for some in windows]


def test_gold_is_said_to_have_fallen_only_where_half_of_its_rise_is_lost_for_good(told):
    fallen = 0
    for words, at, curves in told:
        if not re.search("fallen|fooled|nobody", words):
            continue
        gold, fallen = curves["gold"], fallen + 1
        half = (gold[0] + max(rolling(gold)[: at + 1])) / 2
        assert gold[at] < half and gold[-1] < half and max(rolling(gold)[at:]) < half + 0.1
    assert fallen > 100


def kinds_of(told) -> set[str]:
    """What kinds of sentences there are; none of them says what its numbers deny."""
    kinds = set()
    for words, at, curves in told:
        proxy, gold, kl, ends = (curves[name] for name in ("proxy", "gold", "kl", "ends"))
        if re.search("rise together|have risen|higher than there|most of the gain", words):
            kinds.add("better")
            assert gold[at] > gold[0] and proxy[at] > proxy[0]
        if found := re.search(r"(\S+) at update (\d+)", words):
            kinds.add("peak")
            assert float(found[1]) == pytest.approx(max(gold[: at + 1]), abs=0.006)
            assert gold[int(found[2])] == max(gold[: at + 1])
        if "Later it comes back" in words:
            kinds.add("back")
            assert max(gold[at:]) > gold[at]
            assert max(rolling(gold)[at:]) > (gold[0] + max(gold[:at])) / 2
        if "not get there again" in words:
            kinds.add("gone")
            assert max(gold[at:]) < max(gold[:at])
        if found := re.search(r"(\S+) nats", words):
            kinds.add("far")
            assert float(found[1]) == pytest.approx(max(kl[at], 0), rel=0.006, abs=0.006)
        if "holds it" in words:
            kinds.add("held")
            held_out = curves.get("heldOut", range(len(kl)))  # between these 32 responses jump
            line = np.interp(range(len(kl)), held_out, [kl[i] for i in held_out])
            assert line[at] < 2 * max(line[at // 2], 0.25)
        if found := re.search(r"gold ends at (\S+), at β = \S+ it ends at (\S+)\.$", words):
            kinds.add("ends")
            said = [float(x.replace("−", "-")) for x in found.groups()]
            best, distance = max(ends)
            assert said == pytest.approx([gold[-1], best], abs=0.006)
            assert ("Further" in words) == (kl[-1] > distance)
    return kinds


def test_no_sentence_says_what_its_numbers_deny(told):
    assert kinds_of(told) == {"better", "peak", "back", "gone", "far", "held", "ends"}


def test_in_the_second_world_no_noise_of_32_responses_makes_gold_fall():
    facts = records(SHIPPED.read_text("utf-8"), "-real")
    told = sentences(facts)
    assert len(told) == 31 * 5 * len(facts["seeds"])
    assert kinds_of(told) >= {"better", "far", "held", "ends"}
    for words, at, run in told:
        if re.search("fallen|fooled|nobody|again|comes back", words):
            held_out = [run["gold"][i] for i in run["heldOut"]]
            assert max(held_out) - min(held_out[at // 10 :]) > 0.05
