"""The process that a submission's ranks are forked from, started by `labkit.process.unhooked`.

It has loaded NumPy and what a rank needs, has given up its rights, and never runs a line of a submission
itself: each rank of each run is a new fork of it, so no state goes from run to run or from rank to rank.
It begins with a socket to the grader; a command is a line of JSON together with the ranks' sockets.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from labkit.grading.sandbox import imports
from labkit.grading.sandbox.wire import MOST_AT_ONCE
from labkit.process.confinement import containment, mounts
from labkit.process.confinement.mounts import hide_clock
from labkit.process.watchdog import die_with_parent
from labkit.real.context import put_state, seeded_states

__all__ = ["main"]

_MOST_DESCRIPTORS = 1 << 20


def main(descriptor: int) -> None:
    """Prepare, say what walls stand, and serve until the grader hangs up."""
    die_with_parent(int(sys.argv[2]))
    null = os.open(os.devnull, os.O_RDWR)  # before files are given up: what a submission writes past print
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    control = socket.socket(fileno=descriptor)
    without = sys.argv[3:]
    wanted = () if "namespaces" in without else ("mount", "network", "ipc", "host name")
    namespaces = mounts.leave_namespaces(wanted)
    from labkit.grading.sandbox import rank_process

    if "preload" not in without:
        rank_process.preload()
    is_strict = "seccomp" not in without and containment.probe()
    size = None
    with contextlib.suppress(OSError):  # opened while it can be
        size = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    base_bytes = containment.address_space(size)
    is_hidden = "clock" not in without and hide_clock()
    found = containment.give_up_rights(is_strict, namespaces, without)
    die_with_parent(int(sys.argv[2]))  # a change of user takes it back
    found.system_calls, found.namespaces, found.limits = is_strict, namespaces, containment.LIMITS
    found.has_clock = not (is_hidden and is_strict)
    _answer(control, found.to_dict())
    gc.collect()
    gc.freeze()
    children: dict[int, int] = {}
    while True:
        command, descriptors = _receive(control)
        if command is None:
            break
        if command["do"] == "start":
            children = _start(command, descriptors, found, base_bytes)
            _answer(control, {"started": list(children)})
        elif command["do"] == "load":  # names of modules, of no submission's
            imports.load_modules(command["modules"])
            rank_process.drop_algorithms()
            base_bytes = containment.address_space(size)
            gc.freeze()
            _answer(control, {})
        elif command["do"] == "end":
            ends, worked_s = _end(children)
            _answer(control, {"ends": ends, "worked_s": worked_s})
            children = {}
    _end(children)


def _answer(control: socket.socket, answer: dict[str, object]) -> None:
    control.sendall(json.dumps(answer).encode() + b"\n")


def _receive(control: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Read one command: a line of JSON, and the descriptors that came with it."""
    text, descriptors = b"", array.array("i")
    room = socket.CMSG_SPACE(MOST_AT_ONCE * descriptors.itemsize)
    while not text.endswith(b"\n"):
        data, ancillary, _, _ = control.recvmsg(1 << 16, room)
        if not data:
            return None, []
        text += data
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    return json.loads(text), list(descriptors)


def _start(
    command: dict[str, Any],
    descriptors: list[int],
    found: containment.Containment,
    base_bytes: int,
) -> dict[int, int]:
    from labkit.grading.sandbox import rank_process

    children = {}
    parent = os.getpid()
    # Here and not in each rank: a rank copies every page that it writes to, and this process copies again
    # what it writes to between two forks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGXCPU, rank_process.time_up)
    states = seeded_states(command["seed"], len(descriptors))
    # All on one core, the one that was free just now: a rank's core would reveal how busy others are.
    core = containment.own_core()
    for rank, own in enumerate(descriptors):
        put_state(states[rank])
        child = os.fork()
        if child == 0:
            _become_rank(parent, own, command, found, base_bytes, core, rank_process.main)
        children[child] = rank
    for descriptor in descriptors:
        os.close(descriptor)
    return children


def _become_rank(
    parent: int,
    own: int,
    command: dict[str, Any],
    found: containment.Containment,
    base_bytes: int,
    core: int | None,
    main_of_rank: Callable[..., NoReturn],
) -> None:
    try:
        die_with_parent(parent)
        os.closerange(3, own)
        os.closerange(own + 1, _MOST_DESCRIPTORS)
        if core is not None:
            os.sched_setaffinity(0, {core})
        if not found.has_clock:
            containment.close_clock()
        containment.limit_rank(command["limits"], base_bytes)
        main_of_rank(own, found.files == "landlock", is_strict=found.system_calls)
    except BaseException:
        os._exit(70)
    os._exit(0)


def _end(children: dict[int, int]) -> tuple[dict[str, int], float]:
    """End every rank; each one's exit code, or minus the signal, and the processor seconds of all."""
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    ends, worked_s = {}, 0.0
    for child, rank in children.items():
        with contextlib.suppress(ChildProcessError):
            _, status, used = os.wait4(child, 0)
            worked_s += used.ru_utime + used.ru_stime
            ends[str(rank)] = os.waitstatus_to_exitcode(status)
    return ends, worked_s


if __name__ == "__main__":
    main(int(sys.argv[1]))
