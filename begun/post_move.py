import re, subprocess, sys
from pathlib import Path
root = Path(sys.argv[1]).resolve()
def git(*a): subprocess.run(["git","-C",str(root),*a],check=True)
def sub(path, *pairs):
    p=root/path
    if not p.exists(): print("no", path); return
    t=p.read_text()
    for a,b in pairs:
        if a not in t: print("NOT FOUND in", path, ":", a[:70])
        t=t.replace(a,b)
    p.write_text(t)
for d in ("plots","widgets","experiments"):
    for f in (root/"helpers"/d).glob("__init__.py"): git("rm","-q","-f",str(f))
if (root/"helpers/widgets/drift_explorer.ipynb").exists(): git("mv","helpers/widgets/drift_explorer.ipynb","helpers/page/drift_explorer.ipynb")
# figure.py: base, palette's names and the loop's figure in one place for lessons
DOC = {
 "the_loop":"Lesson 00: the objective and one whole step.","rollouts":"Lesson 01: rollouts.","gae":"Lesson 02: rewards per token, TD errors, GAE.","whitening":"Lesson 03: whitening.",
 "ppo_update":"Lesson 04: the PPO update.","reward_model":"Lesson 05: the reward model.","your_trainer":"Lesson 06: a trainer of one's own.","kl_beta":"Lesson 07: KL and β.",
 "overoptimization":"Lesson 08: over-optimisation.","debugging":"Lesson 09: the clinic.","without_a_critic":"Lesson 10: RLOO and GRPO.","without_a_reward_model":"Lesson 11: DPO.",
 "real_models":"Lesson 12: real models.","scaling_out":"Lesson 13: several processes, TRL, cost."}
for w,doc in DOC.items():
    i=root/f"helpers/lessons/{w}/__init__.py"
    if i.parent.exists() and not i.exists(): i.write_text(f'"""{doc}"""\n')
(root/"helpers/studies/__init__.py").write_text('"""What recorded runs share: jobs, histories, the β sweep, the drift of a policy."""\n')
(root/"helpers/page/__init__.py").write_text('"""The drift page: its parts, the page made of them, and its wire to Python."""\n')
sub("helpers/kit/style.py",('Path(__file__).parent / "page"','Path(__file__).parents[1] / "page"'))
sub("helpers/commands/explorer.py",('"helpers" / "widgets" / "drift_explorer.ipynb"','"helpers" / "page" / "drift_explorer.ipynb"'))
for a,b in (("tests/widgets/test_drift_explorer.py",'"helpers/widgets"'),("tests/browser/test_every_control.py",'"helpers/widgets"')):
    sub(a,(b,'"helpers/page"'))
TESTS = {"experiments":{"test_beta_sweep":"studies","test_lone_run":"studies","test_one_token":"studies","test_runs":"studies","test_study":"studies","test_clinic":"lessons/debugging","test_direct_runs":"lessons/without_a_reward_model",
  "test_overoptimization":"lessons/overoptimization","test_real_model":"lessons/real_models","test_reward_hacking":"lessons/overoptimization","test_reward_quality":"lessons/reward_model","test_reward_recipes":"lessons/overoptimization","test_trainer_band":"lessons/your_trainer","test_without_a_critic_study":"lessons/without_a_critic"},
 "plots":{"test_alt_text":"kit","test_palette":"kit","test_still_pictures":"kit","test_reward_figures":"lessons/reward_model","test_rollout_figures":"lessons/rollouts"},
 "widgets":{"test_clinic_widgets":"lessons/debugging","test_drift_explorer":"page","test_drift_page":"page","test_labelling":"lessons/reward_model","test_predict":"kit","test_style":"kit","test_widgets":"kit","test_two_policies":"kit","test_trainer":"lessons/kl_beta"}}
for d,files in TESTS.items():
    for f,to in files.items():
        src=root/f"tests/{d}/{f}.py"
        if src.exists():
            (root/f"tests/{to}").mkdir(parents=True,exist_ok=True); git("mv",str(src),f"tests/{to}/{f}.py")
fig=(root/"helpers/kit/figures.py"); loop=(root/"helpers/kit/loop_figure.py")
t=loop.read_text(); body=t[t.index("BOXES = {"):]
f=fig.read_text()
f=re.sub(r"from helpers.kit.palette import [^\n]*\n","from helpers.kit.palette import (  # noqa: F401 (lessons take colours from here)\n    ACCENT,\n    GOLD,\n    KL,\n    POLICY,\n    QUIET_INK,\n    REFERENCE,\n    REWARD,\n    VALUE,\n    ink_on,\n)\n",f)
f=f.replace("from matplotlib.figure import Figure\n","from matplotlib.figure import Figure\nfrom matplotlib.patches import FancyBboxPatch\n",1) if "FancyBboxPatch" not in f else f
f=f.rstrip()+"\n\n\n# --- the loop, drawn: four models, seven steps ---------------------------------------------------------\n\n"+body
fig.write_text(f); git("rm","-q","-f","helpers/kit/loop_figure.py")
for p in [*root.rglob("*.py"),*root.glob("notebooks/*.ipynb"),*root.rglob("*.md")]:
    if ".venv" in str(p) or ".git/" in str(p): continue
    t=p.read_text(); n=t.replace("helpers.kit.loop_figure","helpers.kit.figures")
    if n!=t: p.write_text(n)
# tests that look into packages
sub("tests/notebooks/test_callbacks.py",('statement.module.startswith("helpers.widgets")','WIDGETS.search(statement.module)'),("EXPLORER = \"from helpers.widgets import Explorer\\n","EXPLORER = \"from helpers.kit.sliders import Explorer\\n"))
sub("tests/notebooks/test_callbacks.py",("import json\n","import json\nimport re\n"),("from helpers.tools.files import ROOT\n",'from helpers.tools.files import ROOT\n\nWIDGETS = re.compile(r"^helpers\\.(page\\.explorer|kit\\.(sliders|live|predict|markup|\\w+_widgets|two_policies))"\n                     r"|^helpers\\.lessons\\.\\w+\\.(widgets|labelling|live_trainer)")\n'))
sub("tests/kit/test_still_pictures.py",("from tests.plots.test_palette","from tests.kit.test_palette"))
sub("tests/crash_child.py",("import helpers.plots  #","import helpers.kit.figures  #"))
sub("tests/kit/test_widgets.py",("from helpers import widgets\n","import helpers\n"),
 ('for path in (ROOT / "helpers/widgets").glob("*.py")}','for path in MOVING}'),
 ('for module in pkgutil.iter_modules(widgets.__path__, "helpers.widgets."):\n        if module.name.endswith("live_page"):\n            continue  # the wire of the drift explorer\n        for name, value in vars(importlib.import_module(module.name)).items():\n            own = getattr(value, "__module__", "") == module.name',
  'for path in MOVING:\n        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)\n        for name, value in vars(importlib.import_module(module)).items():\n            own = getattr(value, "__module__", "") == module'))
p=root/"tests/kit/test_widgets.py"; t=p.read_text().replace("import helpers\n","",1).replace("import pkgutil\n","")
t=re.sub(r"(from helpers\.world\.small_models import make_tokenizer\n)", r'''\1
# the files in which something moves: sliders, pages, live training
MOVING = [
    path
    for path in (ROOT / "helpers").rglob("*.py")
    if path.stem in ("explorer", "sliders", "predict", "live", "two_policies", "one_token_widgets", "widgets")
    or path.stem in ("labelling", "live_trainer")
]
''',t,count=1)
p.write_text(t)
sub("Makefile",("$(addprefix tests/widgets/test_,widgets.py drift_explorer.py labelling.py trainer.py)","$(addprefix tests/,kit/test_widgets.py page/test_drift_explorer.py \\\n\tlessons/reward_model/test_labelling.py lessons/kl_beta/test_trainer.py)"))
p=root/"tests/test_layout.py"; t=p.read_text()
t=t.replace('FLOORS = ("tools", "", "world theory checks scale", "experiments", "plots", "widgets", "commands")','FLOORS = ("tools", "", "world theory scale", "studies", "kit", "page", "lessons", "commands")')
a=t.index('@pytest.mark.parametrize(\n    "file, line"'); b=t.index("def test_an_import_against")
t=t[:a]+'''@pytest.mark.parametrize(
    "file, line",
    [
        ("tools/files.py", "from helpers.config import RLHFConfig"),
        ("gae.py", "from helpers.lessons.gae import figures"),
        ("gae.py", "import helpers.theory.optimum"),
        ("theory/optimum.py", "from helpers.world.gold import gold_score"),
        ("studies/runs.py", "from helpers.kit import live"),
        ("kit/figures.py", "def draw():\\n    from helpers.lessons.gae.figures import lambda_figure"),
        ("ppo.py", "from helpers import __main__"),
        ("lessons/gae/checks.py", "from helpers.lessons.whitening.checks import check_masked_mean"),
    ],
)
'''+t[b:]
t=t.replace('''        if (up or beside) and not''','''        room = in_lesson(here) and in_lesson(name) and in_lesson(name) != in_lesson(here)
        if (up or beside or room) and not''')
t=t.replace('''def imported(source: str)''','''def in_lesson(module: str) -> str:
    """The lesson in whose room a module stands; "" for one that stands in none."""
    return module.split(".")[1] if module.startswith("lessons.") else ""


def imported(source: str)''')
t=t.replace('re.search(r"lesson|\\d\\d", file)','re.search(r"lesson\\d|\\d\\d", file)').replace('beside == {HELPERS / "widgets"}','beside == {HELPERS / "page"}')
p.write_text(t)

sub("helpers/lessons/overoptimization/widgets.py",("kind → band (see `helpers.lessons.overoptimization.figures`)","kind → band (see `figures`)"))
sub("helpers/lessons/real_models/study.py",("a reward from MiniLM (`helpers.lessons.real_models.kindness`)","a reward from MiniLM (`kindness`)"))
p=root/"helpers/README.md"; t=p.read_text()
a=t.index("| drawer | what is in it |"); b=t.index("Each topic has one word:")
t=t[:a]+'''| drawer | what is in it |
|---|---|
| [tools/](tools) | nothing of RLHF: argument checks, flags from dataclasses, folders replaced atomically (`files.py`), several processes (`parallel.py`, `pool.py`), Colab |
| [world/](world) | the embedded world: its grammar, the gold score (`gold.py`), the simulated labeller, a task whose answer is checked (`task.py`), how `data/` was made (`build.py`) |
| [theory/](theory) | what is known exactly, or estimated from samples: the best policy π\\* and its objective J\\* (`optimum.py`), best-of-n, realignment at another β (`placement.py`) |
| [scale/](scale) | beyond the toy: hub models, LoRA adapters (`lora.py`), export (`export.py`), memory, timing, distributed runs, TRL |
| [studies/](studies) | what recorded runs share: jobs that resume (`study.py`), histories (`runs.py`), the β sweep (`beta_sweep.py`), drift, the world of one token (`one_token.py`) |
| [kit/](kit) | what lessons share: an exercise (`exercise.py`) and its judge (`judge.py`, `diagnosis.py`), figures and colours (`figures.py`), sliders, predictions |
| [page/](page) | the drift page (`drift_page.py` and its scripts); in a notebook the drift explorer (`explorer.py`) with its wire to Python (`live_page.py`) |
| [lessons/](lessons) | a room for each lesson, named as its notebook: `checks.py` (its exercises), `figures.py`, `widgets.py`, `study.py` (its recorded runs) |
| [commands/](commands) | what `python -m helpers` does ([its page](commands/README.md)): training with bars and results (`train.py`), recorded studies (`study.py`) |

Each topic has one word: notebook 02 is `02_gae`, its algorithm `gae.py`, its room `lessons/gae/`, its tests `tests/lessons/gae/`. No room imports another.
'''
p.write_text(t)
p=root/"CONTRIBUTING.md"; t=p.read_text()
t=re.sub(r"3\. Imports point one way.*?\n4\. One word a topic[^\n]*\n", '''3. Imports point one way, and `tests/test_layout.py` holds it: tools < open files < world, theory, scale < studies <
   kit < page < lessons < the command line. No lesson imports another.
4. One word a topic, everywhere: `notebooks/02_gae.ipynb`, `helpers/gae.py`, `helpers/lessons/gae/`, `tests/lessons/gae/`.
''', t, flags=re.S)
a=t.index("## An exercise, with its mistakes"); b=t.index("## A lesson")
t=t[:a]+'''## An exercise, with its mistakes

In `helpers/lessons/<lesson>/checks.py`: the solution, as the notebook folds it; inputs so small that a reader can follow the failing
case; and at most eight mistakes that people make and that teach, each a small difference of the solution with one sentence. All else
(a sign, a factor, padding counted, rows mixed …) the judge finds by itself: it tries general slips on the solution, and moves each
argument to see what your result depends on.

```python
import torch

from helpers.kit.exercise import Exercise
from helpers.kit.judge import checker

check_squared_error = checker(
    Exercise(
        "squared_error",
        "values returns",
        """\\
def squared_error(values, returns):
    return (values - returns).square()
""",
        "(V − R)² of each token (notebook 04)",
        [(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 5.0]))],
        """\\
mean taken: Leave the mean to the loss: return one number a token.
- .square()
+ .square().mean()
""",
    )
)
print(check_squared_error(lambda values, returns: values - returns))
```

Answers as learners write them, wrong ones and unusual right ones, go to `tests/lessons/<lesson>/answers.py`; `tests/kit/test_answers.py`
asks that every wrong one is caught, most are named, and no right one is refused.

'''+t[b:]
t=t.replace("`tests/experiments/test_clinic.py` then tries it","`tests/lessons/debugging/test_clinic.py` then tries it").replace("In `helpers/plots/<topic>.py`: a function","In `helpers/lessons/<lesson>/figures.py`: a function")
t=t.replace("In `helpers/experiments/faults.py`","In `helpers/lessons/debugging/faults.py`")
p.write_text(t)
