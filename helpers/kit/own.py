"""The learner's own functions: used once they are right, kept for later lessons, run in the loop."""

import dis
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

import torch
from IPython import get_ipython
from torch import Tensor

from helpers.config import RLHFConfig
from helpers.data import DRIVE, work_folder
from helpers.kit.places import PLACES, course_version, in_place
from helpers.kit.report import CORRECT, Report
from helpers.rollouts import forward_logprobs
from helpers.sampling import sample_texts
from helpers.state import RLHFState, start_run
from helpers.steps import iterate
from helpers.tools.files import write_text
from helpers.tools.validate import require

FOLDER = "my_functions"  # in the learner's folder
HEAD = "# Your {name}. Before a lesson uses it, {check} checks it again."
RIGHT: dict[str, Callable] = {}  # what is right in this session, by name of the exercise


# --- kept ------------------------------------------------------------------------------------------


def source_of(function: Callable) -> str:
    """The source of a function. ValueError: Python cannot find it."""
    try:
        return textwrap.dedent(inspect.getsource(function)).strip()
    except (OSError, TypeError):
        name = getattr(function, "__name__", function)
        raise ValueError(f"{name}: got no source, wants a function written in a cell.") from None


def own_helpers(functions: dict[str, Callable]) -> list[Callable]:
    """Functions of the same notebook that these call by name, and those that these call in turn."""
    found, waiting = {}, [inspect.unwrap(function) for function in functions.values()]
    while waiting:
        function = waiting.pop(0)
        for name in names_in(getattr(function, "__code__", None)):
            other = inspect.unwrap(function.__globals__.get(name))
            same = inspect.isfunction(other) and other.__module__ == function.__module__
            if same and name == other.__name__ and name not in {*found, *functions}:
                found[name] = other
                waiting.append(other)
    return list(found.values())


def names_in(code) -> list[str]:
    """Names of globals that a function uses, nested functions included."""
    if code is None:
        return []
    nested = [name for x in code.co_consts if inspect.iscode(x) for name in names_in(x)]
    used = [
        x.argval for x in dis.get_instructions(code) if x.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    ]
    return [*dict.fromkeys(used), *nested]


def import_of(name: str, x: object) -> str:
    """The lines that bring a module, or what a module defines. ValueError: nothing imports it."""
    x = inspect.unwrap(x)
    if isinstance(x, ModuleType):
        return f"import {x.__name__} as {name}"
    module, there = getattr(x, "__module__", None), getattr(x, "__name__", None)
    with suppress(ImportError, AttributeError, ValueError):
        if resolve_name(f"{module}:{there}") is x:
            return f"from {module} import {there} as {name}"
    check = f"check_{there}"  # the course's version of another exercise
    for lesson in lessons():
        exercise = getattr(getattr(lesson, check, None), "exercise", None)
        if exercise is not None and exercise.right is x:
            return f"from {lesson.__name__} import {check}\n{name} = {check}.exercise.right"
    raise ValueError(f"it uses `{name}` of this notebook; give it as an argument")


def lessons() -> list[ModuleType]:
    """The modules of lessons that are loaded."""
    return [one for name, one in sys.modules.items() if name.startswith("helpers.lessons.")]


def whole_source(function: Callable) -> str:
    """A function's source with the imports and own functions that it needs. ValueError: it needs more."""
    name = function.__name__
    functions = [*own_helpers({name: function}), inspect.unwrap(function)]
    own = {one.__name__ for one in functions}
    needed = {}
    for one in functions:
        known = one.__globals__
        needed |= {k: known[k] for k in names_in(one.__code__) if k in known and k not in own}
    # a decorator, torch.no_grad say, stands in no function's code
    imports = ["import torch", *(import_of(k, x) for k, x in needed.items() if x is not torch)]
    return "\n\n\n".join(["\n".join(imports), *map(source_of, functions)]) + "\n"


def place_of(name: str) -> Path:
    """The file of a kept function."""
    return work_folder() / FOLDER / f"{name}.py"


def keep(check: Callable, function: Callable) -> str:
    """Keep a right function for later lessons; → one sentence that says where, or why not."""
    name = check.exercise.name
    try:
        home = next(x.__name__ for x in lessons() if getattr(x, check.__name__, None) is check)
        head = HEAD.format(name=name, check=f"{home}:{check.__name__}")
        source, path = whole_source(function), place_of(name)
        loaded(source, name)
        path.parent.mkdir(exist_ok=True)
        write_text(path, f"{head}\n{source}")
    except Exception as problem:  # noqa: BLE001 (right all the same: it is only not kept)
        return f"Not kept for later lessons: {problem}."
    gone = Path("/content").is_dir() and not DRIVE.is_dir()
    until = " until this runtime ends (mount Drive to keep it longer)" if gone else ""
    return f"Kept in {path.parent.parent.name}/{FOLDER}{until}."


def loaded(source: str, name: str) -> Callable:
    """The function of this name in a source."""
    names = {"__name__": FOLDER}
    exec(compile(source, f"{FOLDER}/{name}.py", "exec"), names)  # noqa: S102 (the learner's own text)
    return names[name]


def load(path: Path) -> Callable | None:
    """A kept function that still passes its check; None, and a line that says why, where it does not."""
    name, source = path.stem, path.read_text(encoding="utf-8")
    try:
        check = resolve_name(re.match(r"# .* (helpers\.lessons\.[\w.]+:check_\w+) ", source)[1])
        function = loaded(source, name)
        report = check.report(function)
        problem = "" if report.status == CORRECT else report.title
    except Exception as error:  # noqa: BLE001 (a file that somebody may have changed)
        problem = f"{type(error).__name__}: {error}"
    if problem:
        print(f"{FOLDER}/{path.name} is not used, the course's is: {problem}")
        return None
    return function


# --- used ------------------------------------------------------------------------------------------


def taken(check: Callable, function: Callable, report: Report) -> tuple[Callable, Report]:
    """The function that the lesson goes on with, and the report, which says so where it is the learner's."""
    name = check.exercise.name
    course = course_version(check.exercise)
    if report.status != CORRECT:
        RIGHT.pop(name, None)
        return course, report
    if function is course:
        return course, replace(report, message="This is the course's own function.")
    RIGHT[name] = function
    says = f"{report.message} The lesson goes on with yours."
    if get_ipython() is not None:
        says = f"{says} {keep(check, function)}"
    return function, replace(report, message=says)


def theirs(name: str) -> Callable | None:
    """The learner's right function of this name: that of this session, else the kept one."""
    path = place_of(name)
    return RIGHT.get(name) or (load(path) if path.is_file() else None)


def all_own() -> dict[str, Callable]:
    """The learner's functions that the loop has a place for."""
    functions = {name: theirs(name) for name in PLACES}
    return {name: function for name, function in functions.items() if function is not None}


def own(course: Callable) -> Callable:
    """The learner's version of a function of the course, where there is a right one; else the course's."""
    course = inspect.unwrap(course)  # where this cell is run again
    names = [name for name, place in PLACES.items() if place.course is course]
    require(len(names) == 1, "course", getattr(course, "__name__", course), f"one of {[*PLACES]}")
    (name,) = names
    function = theirs(name)
    if function is None:
        print(f"{name}: the course's is in use.")
        return course
    print(f"{name}: your own is in use.")
    return PLACES[name].stand_in(function, course)


# --- the loop with them ------------------------------------------------------------------------------


def watched(state: RLHFState) -> list[tuple[int, str, Tensor]]:
    """One iteration: (step, name, tensor) of all that its steps give, in order."""
    seen, sampled = [], []

    def observe(step: int, **given) -> None:
        if step == 2:
            sampled.append(given["responses"])
            given = {"tokens": sampled[0].response_tensors, "log-probs": sampled[0].logprobs}
        if step == 7:
            with torch.no_grad():
                after = forward_logprobs(state.models.actor, *sampled[0].tokens())
            given = {"log-probs after the update": after}
        tensors = {name: x for name, x in given.items() if isinstance(x, Tensor)}
        seen.extend((step, name, x.detach().clone()) for name, x in tensors.items())

    iterate(state, observe)
    return seen


def first_apart(mine: list, course: list) -> str:
    """The first result that is not the course's, to 1e-4; "" if all are."""
    for (step, name, x), (*_, y) in zip(mine, course, strict=True):
        if x.shape != y.shape or not torch.allclose(x.float(), y.float(), rtol=1e-4, atol=1e-4):
            return f"step {step}, {name}"
    return ""


SHORT = RLHFConfig(
    iterations=3, batch_size=32, minibatch_size=32, normalizer_samples=128, device="cpu"
)


def milestone(reward: Callable | None = None, **settings) -> None:
    """Train with the learner's functions in the course's place, beside the course's run of this seed.

    reward: list of texts → scores; the course's reward model if not given. settings: fields of `RLHFConfig`
    that differ from `SHORT`. The first iteration must give the course's numbers; a sampler that draws in
    another way is left out there.
    """
    config = replace(SHORT, **{"minibatch_size": settings.get("batch_size", 32)} | settings)
    functions = all_own()
    if config.method != "ppo":
        functions.pop("ppo_update_step", None)  # theirs trains a critic
    start = partial(start_run, config, reward=reward)
    state, generator = start(), torch.Generator().manual_seed(config.seed)
    with in_place(functions) as calls:
        first = watched(state)
        while state.iteration < config.iterations:
            iterate(state)
        what = state.models.actor, state.models.tokenizer, state.prompts, 3, config, generator
        texts = sample_texts(*what)
    mine = [name for name in functions if calls[name]]
    rest = [name for name, count in calls.items() if count and name not in functions]
    count = f"{len(mine)} of {len(mine) + len(rest)} parts"
    print(f"Yours in this loop, {count}: {', '.join(mine) or 'none yet'}.")
    print(f"The course's: {', '.join(rest) or 'nothing that you have written'}.")
    if idle := [name for name in functions if not calls[name]]:
        print(f"Not listed: {', '.join(idle)}: yours, too, called by your functions or unused.")
    if mine:
        print(compared(functions, first, start))
    # six lines at most, and the last
    shown = range(0, len(state.history), -(-len(state.history) // 6))
    for one in [state.history[k] for k in sorted({*shown, len(state.history) - 1})]:
        numbers = f"score {one['score']:+.2f}   KL {one['kl']:.2f} nats"
        print(f"iteration {one['iteration']:2d}   {numbers}")
    print("Three texts of this policy:", *texts, sep="\n")


def compared(functions: dict[str, Callable], mine: list, start: Callable[[], RLHFState]) -> str:
    """One sentence: the first iteration of this run beside the course's from the same start."""
    course, left_out = watched(start()), ""
    apart = first_apart(mine, course)
    if apart.startswith("step 2") and "sample_with_cache" in functions:
        left_out = " (Your sampler draws its random numbers in another way: here it was left out.)"
        others = {name: f for name, f in functions.items() if name != "sample_with_cache"}
        with in_place(others):
            apart = first_apart(watched(start()), course)
    if apart:
        return f"The first iteration parts from the course's own at {apart}.{left_out}"
    return (
        f"All numbers of the first iteration are those of the course's own run, to 1e-4.{left_out}"
    )
