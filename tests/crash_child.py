"""Run as a script by `crash_harness.py`: forks the course's commands for the fault tests and kills them."""

import importlib
import json
import os
import resource
import signal
import socket
import sys
import time
from functools import partial
from pathlib import Path
from unittest.mock import Mock

NOBODY = 65534
CHANGES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree"}


def die_at(count: int, folder: str) -> None:
    """SIGKILL this process just before its `count`-th operation on files below `folder`."""
    seen = 0

    def hook(event: str, arguments: tuple) -> None:
        nonlocal seen
        if event not in CHANGES:
            return
        if event in ("os.remove", "os.rmdir") or folder in str(arguments[0]):
            seen += 1
            if seen == count:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def inject(request: dict) -> None:
    """In the child: inject the requested faults before anything runs."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    if "file_limit" in request:  # bytes a file may have: a disk that fills up while it is written
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_limit"],) * 2)
    if request.get("as_nobody"):
        os.setgid(NOBODY), os.setuid(NOBODY)
    if "die_at" in request:
        die_at(request["die_at"], request["below"])


def watch(child: int, errors: int, request: dict) -> int:
    """Wait for the child, or end it after `seconds` or once `stop_at` stands on stderr or in the file
    `stop_in`: by `signal`, to it alone or to its whole session. SIGKILL where it waited in vain.
    """
    end = time.monotonic() + request.get("seconds", 300)
    word, file = request.get("stop_at", "\0").encode(), request.get("stop_in")

    def seen() -> bool:
        if file is None:
            return word in os.pread(errors, 1 << 16, 0)
        return Path(file).exists() and word in Path(file).read_bytes()

    while time.monotonic() < end and not (stop := seen()):
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    asked = stop or "stop_at" not in request
    number = getattr(signal, request.get("signal", "SIGKILL") if asked else "SIGKILL")
    (os.killpg if request.get("whole_session") else os.kill)(child, number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def alive(session: int) -> bool:
    """Whether a process of this session still runs."""
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


def small_loop(arguments: list[str]) -> int:
    """`python -m helpers train`, a checkpoint each iteration, few responses around it, nothing drawn."""
    from matplotlib.figure import Figure

    from helpers.__main__ import main
    from helpers.commands import results

    results.training_curves = lambda history: Figure()
    return main(["train", *arguments, "--checkpoint-every", "1", "--evaluation-samples", "8"])


def small_sweep(arguments: list[str]) -> int:
    """The β sweep on small models; its workers are forks, as their torch is there."""
    from multiprocessing import get_context

    from helpers.__main__ import main
    from helpers.studies import beta_sweep as sweeps
    from helpers.studies import study as jobs
    from helpers.tools import pool as workers

    actor, reward, *arguments = arguments
    workers.multiprocessing.get_context = lambda kind: get_context("fork")
    # forked siblings hold the pipe by which spawned ones learn that their parent is gone
    workers.multiprocessing.parent_process = partial(Parent, os.getpid())
    size = {"batch_size": 4, "response_length": 4, "minibatch_size": 64}
    size |= {"actor": actor, "reward_model": reward, "checkpoint_every": 1}
    sweeps.BetaSweepOptions.SETTINGS = sweeps.BetaSweepOptions.SETTINGS | size
    measure = jobs.measure  # two responses a prompt, and no gold score, which parses every text
    jobs.measure = lambda state, policy, per_prompt: measure(state, policy, 2)
    return main(["sweep", *arguments])


class Parent:
    """What `multiprocessing.parent_process()` is asked for."""

    def __init__(self, pid: int):
        self.pid = pid

    def join(self) -> None:
        while os.getppid() == self.pid:
            time.sleep(0.02)


def replace_folder(arguments: list[str]) -> int:
    """Replace a folder by a new one of three files; "elsewhere": names cannot be exchanged in one step."""
    from helpers.tools import files as disk

    folder, *elsewhere = arguments
    if elsewhere:
        disk._exchange = lambda one, other: False
    with disk.atomic_folder(Path(folder)) as temporary:
        for name in "abc":
            (temporary / name).write_text("new")
    return 0


def work_for_ever() -> None:
    """A worker's task that never ends."""
    print("working", file=sys.stderr, flush=True)
    time.sleep(1000)


def have_orphans(arguments: list[str]) -> int:
    """A real, spawned worker, at work."""
    from helpers.tools.pool import run_all

    run_all([(work_for_ever, ())], workers=1, threads=1)
    return 0


def import_everything(modules: list[str]) -> int:
    """Every module of the course, in a process whose sockets raise."""
    for name in modules:
        importlib.import_module(name)
    return 0


SCENES = {
    "import": import_everything,
    "orphans": have_orphans,
    "loop": small_loop,
    "sweeps": small_sweep,
    "replace": replace_folder,
}


def serve() -> None:
    """Read requests, one JSON object a line; answer each when its child has ended."""
    no_network = Mock(side_effect=OSError("asked the network"))
    socket.socket.connect = socket.getaddrinfo = socket.create_connection = no_network
    import torch

    import helpers.commands.train
    import helpers.kit.figures  # noqa: F401 (what every child needs)

    torch.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        files = [os.memfd_create(name) for name in ("out", "err")]
        child = os.fork()
        if child == 0:
            os.setsid()
            for file, number in zip(files, (1, 2), strict=True):
                os.dup2(file, number)
            inject(request)
            try:
                status = SCENES[request["scene"]](request["arguments"])
            except BaseException:
                import traceback

                traceback.print_exc()
                status = 1
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(status)
        status = watch(child, files[1], request)
        told = {}
        for name, file in zip(("out", "err"), files, strict=True):
            told[name] = os.pread(file, 1 << 24, 0).decode(errors="replace")
            os.close(file)
        print(json.dumps({"status": status, "left": alive(child), "session": child} | told))
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
