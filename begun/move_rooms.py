"""move_rooms.py ROOT [--dry]: move modules into rooms, rewrite imports in .py, .ipynb, .md."""
import json, re, subprocess, sys
from pathlib import Path
root = Path(sys.argv[1])
L="helpers.lessons."
MAP = {
 # kit
 "helpers.plots.base":"helpers.kit.figures", "helpers.plots.palette":"helpers.kit.palette", "helpers.plots.alt_text":"helpers.kit.alt_text",
 "helpers.plots.loop":"helpers.kit.loop_figure",
 "helpers.widgets.sliders":"helpers.kit.sliders","helpers.widgets.predict":"helpers.kit.predict","helpers.widgets.style":"helpers.kit.style",
 "helpers.widgets.markup":"helpers.kit.markup","helpers.widgets.live":"helpers.kit.live","helpers.widgets.coloured_words":"helpers.kit.coloured_words",
 "helpers.widgets.two_policies":"helpers.kit.two_policies",
 "helpers.plots.one_token":"helpers.kit.one_token_figures","helpers.widgets.one_token":"helpers.kit.one_token_widgets",
 # studies
 "helpers.experiments.runs":"helpers.studies.runs","helpers.experiments.study":"helpers.studies.study","helpers.experiments.beta_sweep":"helpers.studies.beta_sweep",
 "helpers.experiments.drift":"helpers.studies.drift","helpers.experiments.measure":"helpers.studies.measure","helpers.experiments.one_token":"helpers.studies.one_token",
 "helpers.experiments.registry":"helpers.commands.registry",
 # rooms
 "helpers.plots.rollouts":L+"rollouts.figures","helpers.widgets.rollouts":L+"rollouts.widgets",
 "helpers.plots.gae":L+"gae.figures","helpers.plots.whitening":L+"whitening.figures",
 "helpers.plots.ppo":L+"ppo_update.figures","helpers.widgets.ppo":L+"ppo_update.widgets","helpers.theory.surrogate":L+"ppo_update.surrogate",
 "helpers.plots.reward_model":L+"reward_model.figures","helpers.widgets.reward_model":L+"reward_model.widgets","helpers.widgets.labelling":L+"reward_model.labelling","helpers.experiments.reward_quality":L+"reward_model.study",
 "helpers.plots.your_trainer":L+"your_trainer.figures",
 "helpers.plots.kl":L+"kl_beta.figures","helpers.plots.kl_control":L+"kl_beta.control_figures","helpers.widgets.kl":L+"kl_beta.widgets","helpers.widgets.trainer":L+"kl_beta.live_trainer","helpers.experiments.kl_control":L+"kl_beta.control_study",
 "helpers.plots.drift":"helpers.page.figures","helpers.widgets.drift":"helpers.page.explorer","helpers.widgets.drift_page":"helpers.page.drift_page","helpers.widgets.live_page":"helpers.page.live_page","helpers.widgets.page_policies":"helpers.page.policies",
 "helpers.theory.gaussian":L+"kl_beta.gaussian",
 "helpers.plots.overoptimization":L+"overoptimization.figures","helpers.widgets.overoptimization":L+"overoptimization.widgets","helpers.experiments.reward_hacking":L+"overoptimization.study","helpers.experiments.patching":L+"overoptimization.patching","helpers.theory.overoptimization":L+"overoptimization.turning",
 "helpers.plots.clinic":L+"debugging.figures","helpers.widgets.clinic":L+"debugging.widgets","helpers.experiments.clinic":L+"debugging.study","helpers.experiments.diagnose":L+"debugging.diagnose","helpers.experiments.faults":L+"debugging.faults",
 "helpers.experiments.patients":L+"debugging.patients","helpers.experiments.strengths":L+"debugging.strengths","helpers.experiments.telling":L+"debugging.telling","helpers.experiments.treatment":L+"debugging.treatment","helpers.experiments.two_faults":L+"debugging.two_faults",
 "helpers.plots.groups":L+"without_a_critic.figures","helpers.experiments.without_a_critic":L+"without_a_critic.study","helpers.theory.groups":L+"without_a_critic.prompt_weight",
 "helpers.plots.direct":L+"without_a_reward_model.figures","helpers.widgets.direct":L+"without_a_reward_model.widgets","helpers.experiments.direct":L+"without_a_reward_model.study",
 "helpers.plots.real_models":L+"real_models.figures","helpers.experiments.real_model":L+"real_models.study","helpers.scale.kindness":L+"real_models.kindness",
 "helpers.plots.scaling_out":L+"scaling_out.figures","helpers.experiments.trl":L+"scaling_out.study","helpers.scale.cost_model":L+"scaling_out.cost_model",
}
MAP = {a:b for a,b in MAP.items() if (root/(a.replace(".","/")+".py")).exists()}
PACKAGES = {  # names of a package's __init__
 "helpers.plots": {"new_figure":"helpers.kit.figures","token_bars":"helpers.kit.figures","training_curves":"helpers.kit.figures","loop_figure":"helpers.kit.figures",
   **{n:"helpers.kit.figures" for n in ("ACCENT","GOLD","KL","POLICY","REFERENCE","REWARD","VALUE")}},
 "helpers.widgets": {"progress_html":"helpers.kit.live","show_pairs":"helpers.kit.live","watch":"helpers.kit.live","Explorer":"helpers.kit.sliders","picker":"helpers.kit.sliders","slider":"helpers.kit.sliders"},
}
CHECKS = {}  # check name -> room module, of the new rooms
for f in (root/"helpers/lessons").glob("*/checks.py"):
    for n in re.findall(r"^(check_\w+)\b.*=|^def (check_\w+)", f.read_text(), re.M):
        for x in n:
            if x: CHECKS[x] = f"helpers.lessons.{f.parent.name}.checks"
def one_import(module, names):
    """names: list of 'a' or 'a as b' → list of import lines"""
    out = {}
    for n in names:
        name, _, alias = n.partition(" as ")
        full = f"{module}.{name}"
        if full in MAP:
            m, _, last = MAP[full].rpartition(".")
            use = alias or name
            out.setdefault(m, []).append(last if last == use else f"{last} as {use}")
        elif module in PACKAGES and name in PACKAGES[module]:
            out.setdefault(PACKAGES[module][name], []).append(n)
        else:
            out.setdefault(MAP.get(module, module), []).append(n)
    return out
def rewrite(text):
    def block(m):
        module, body = m[1], m[2]
        if not (module in MAP or module in PACKAGES or any(k.startswith(module+".") for k in MAP)): return m[0]
        names = [n.strip() for n in re.sub(r"#.*","",body.strip("() \n")).replace("\n"," ").split(",") if n.strip()]
        new = one_import(module, names)
        if list(new) == [module]: return m[0]
        return "\n".join(f"from {k} import {', '.join(v)}" for k,v in new.items())
    text = re.sub(r"from (helpers[\w.]*) import (\([^)]*\)|[^\n(]+)", block, text)
    for a in sorted(MAP, key=len, reverse=True):  # mentions and paths
        b = MAP[a]
        text = re.sub(rf"(?<![\w.]){re.escape(a)}(?![\w])", b, text)
        pa, pb = a.replace(".","/")+".py", b.replace(".","/")+".py"
        text = text.replace(pa, pb)
        if pa.startswith("helpers/"): text = re.sub(rf"(?<![\w/]){re.escape(pa[8:])}", pb[8:], text)
    return text
if __name__ == "__main__":
    for a,b in MAP.items():
        src, dst = root/(a.replace(".","/")+".py"), root/(b.replace(".","/")+".py")
        dst.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git","-C",str(root),"mv",str(src),str(dst)],check=True)
    for p in ("helpers/widgets/page",):
        if (root/p).exists():
            for f in (root/p).iterdir(): subprocess.run(["git","-C",str(root),"mv",str(f),str(root/"helpers/page"/f.name)],check=True)
    files = subprocess.run(["git","-C",str(root),"ls-files"],capture_output=True,text=True).stdout.split()
    for f in files:
        p = root/f
        if p.suffix in (".py",".md",".html",".js") or p.name=="Makefile":
            t=p.read_text(); n=rewrite(t)
            if n!=t: p.write_text(n)
        elif p.suffix==".ipynb":
            raw=p.read_text(); nb=json.loads(raw); ch=False
            for c in nb["cells"]:
                s="".join(c["source"]); n=rewrite(s)
                if n!=s: c["source"]=n.splitlines(keepends=True) if isinstance(c["source"],list) else n; ch=True
            if ch: p.write_text(json.dumps(nb,indent=1,ensure_ascii=False)+"\n")
