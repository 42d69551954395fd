"""Run a learner's function on copies of its inputs, with a time limit, and catch every exception."""

import copy
import dis
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

import torch
from torch import Tensor
from tqdm import tqdm

SLOW = 30  # seconds that a check may take, from which on its progress is shown
PATIENCE = 10  # seconds of the clock for each second of computing: the machine may be busy


class TimeLimit(BaseException):
    """Time is up. Not an Exception, so that a learner's `except Exception` does not catch it."""


class Wrong(Exception):
    """A mistake seen without comparing numbers: its name, what to say, and two values where there are any."""

    def __init__(self, name: str, says: str, yours: object = None, expected: object = None):
        super().__init__(says)
        self.name, self.says, self.yours, self.expected = name, says, yours, expected


def importing(frame: FrameType | None) -> bool:
    """Whether this frame is reached through an import."""
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise TimeLimit after `seconds` of this thread's computing, or `PATIENCE` times as many of the clock's.

    An earlier user of the timer (pytest) gets it back.
    """
    computed, started = time.thread_time(), time.monotonic()

    def ring(_, frame):
        spent = max(time.thread_time() - computed, (time.monotonic() - started) / PATIENCE)
        # else it rings again; a module whose import is cut in two stays broken in this kernel
        if spent >= seconds and not importing(frame):
            raise TimeLimit

    handler = signal.signal(signal.SIGALRM, ring)
    before, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if before:
            left = max(before - (time.monotonic() - started), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, left, interval)


def limited(function: Callable, seconds: float) -> object:
    """Call `function`; TimeLimit if it computes longer than `seconds`. On Windows there is no limit."""
    main = threading.current_thread() is threading.main_thread()
    with _alarm(max(seconds, 1e-3)) if main and hasattr(signal, "setitimer") else nullcontext():
        return function()


def shown(items: Iterable, what: str, seconds: float) -> Iterable:
    """The items; if they may take many seconds, one line says how many are done, and goes away at the end."""
    line = {"bar_format": "{desc}: {n_fmt} of {total_fmt} done", "miniters": 1, "leave": False}
    return tqdm(items, what, disable=seconds < SLOW, file=sys.stdout, **line)


def copy_of(arguments: tuple) -> tuple:
    """The arguments, with copies of tensors and lists, which the learner's function may change."""
    return tuple(
        x.clone() if isinstance(x, Tensor) else copy.deepcopy(x) if isinstance(x, list) else x
        for x in arguments
    )


def _differs(before: object, after: object) -> bool:
    """Whether an argument was changed in place; NaN is NaN still."""
    if isinstance(before, list):  # of texts and numbers; another order does no harm
        return sorted(map(repr, before)) != sorted(map(repr, after))
    if not isinstance(before, Tensor):
        return False
    alike = before.dtype == after.dtype and before.shape == after.shape
    return not (alike and torch.allclose(before, after.detach(), rtol=0, atol=0, equal_nan=True))


def call(function: Callable, arguments: tuple) -> object:
    """The function's result on copies of its tensors and lists.

    NotImplementedError: it is a stub. Wrong: it changed its inputs.
    """
    inputs = copy_of(arguments)
    answer = function(*inputs)
    if answer is Ellipsis or answer is NotImplemented or (answer is None and is_empty(function)):
        raise NotImplementedError
    names = getattr(code_of(function), "co_varnames", ())
    changed = [i for i, pair in enumerate(zip(arguments, inputs, strict=True)) if _differs(*pair)]
    if changed:
        those = " and ".join(names[i] if i < len(names) else f"input {i + 1}" for i in changed)
        says = f"You changed {those} in place, but the caller still needs the old values."
        raise Wrong("inputs changed", f"{says} Use a copy (x.clone(), or x + 1, not x += 1).")
    return answer


def attempt(work: Callable, seconds: float) -> tuple[object, BaseException | None]:
    """What this work gives, with gradients on, and the exception, whatever it is, that ended it."""

    def quietly():
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a std over our case of one token
            return work()

    try:
        return limited(quietly, seconds), None
    except KeyboardInterrupt:
        raise  # the learner pressed stop
    except BaseException as error:  # noqa: BLE001 (reported, never raised)
        return None, error


def is_missing(error: BaseException | None) -> bool:
    """Whether a function is not written yet: torch raises that, too, where a dtype has no such operation."""
    torchs = "aten::" in str(error) or "not implemented for" in str(error)
    return isinstance(error, NotImplementedError) and not torchs


def code_of(function: Callable):
    """The code of a function as it was written, below what decorates it; None if there is none."""
    return getattr(getattr(function, "__wrapped__", function), "__code__", None)


def is_empty(function: Callable, names: Iterable[str] = ()) -> bool:
    """Whether the body is only a docstring or `pass`: it reads no variable, of other names at most these."""
    code = code_of(function)
    if code is None or not set(code.co_names) <= set(names):
        return False
    return not any(x.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) for x in dis.Bytecode(code))


def is_stub(function: object) -> bool:
    """Whether a function is not written yet: seen without inputs, so that none has to be made for it."""
    if not callable(function):
        return function is None or function is Ellipsis or function is NotImplemented
    if not is_empty(function, ("NotImplemented", "NotImplementedError")):
        return False
    nothing = (None,) * code_of(function).co_argcount
    return is_missing(attempt(lambda: call(function, nothing), seconds=1.0)[1])


def line_of(error: BaseException, function: Callable) -> str:
    """The line of the learner's code that raised the error, as 'line 3: `x = y`', or ''."""
    code = code_of(function)
    frames = traceback.extract_tb(error.__traceback__) if code else []
    own = [frame for frame in frames if frame.filename == code.co_filename]
    if not own:
        return ""
    return f"line {own[-1].lineno}" + (f": `{own[-1].line}`" if own[-1].line else "")
