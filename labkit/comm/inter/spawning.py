"""Ranks that start while the job goes on: `Spawn`, and the communicator that they and their parents have.

New ranks are a world of their own (`Comm.Get_parent` leads back). What it costs is what its messages cost on
the simulated network: the root sends each new rank the words of its command line, a rank's program begins
when they have come, each answers, and `Spawn` is over when the root has all answers and has told its
communicator. To start a process takes no simulated time besides.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labkit.comm.collective.native import arrive, leave, shared_calls
from labkit.comm.handles.base import KNOWN
from labkit.errors import UnsupportedError

__all__ = ["Wanted", "all_wanted", "begin_spawned", "one_wanted", "parent", "spawn"]

_WORDS, _READY = 1, 2


@dataclass(frozen=True)
class Wanted:
    """Ranks that are asked for.

    Attributes
    ----------
    words : tuple of str
        Their command line.
    count : int
    job : callable, optional
        What they do instead of a command's program, where they are workers of the running one: ``job(load)``,
        where ``load()`` executes the program's file but for its main part.
    """

    words: tuple[str, ...]
    count: int
    job: Callable[[Callable[[], None]], None] | None = None


def spawn(comm: Any, name: str, root: int, wanted: Callable[[], list[Wanted]]) -> tuple[Any, list[int]]:
    """Start them; the communicator, and how many each command has."""
    arrive(comm, name, {"root": root})
    leave(name)
    news = _start(comm, name, wanted()) if comm.rank == root else None
    context, children, counts = comm.bcast(news, root)
    return _between(context, comm._world_ranks(), children), counts


def _start(comm: Any, name: str, wanted: list[Wanted]) -> tuple[int, list[int], list[int]]:
    calls, parents = shared_calls(name), comm._world_ranks()
    if calls.spawn is None:
        raise UnsupportedError(
            f"{name} starts ranks of a script, and this run is a function in this process; put the "
            "program into a file and run that (labkit run -n 4 prog.py), or run on real MPI (on='mpi')"
        )
    if calls.keeps_calls:
        raise UnsupportedError(
            f"{name} cannot be recorded: the ranks of a time-independent trace are those that it begins "
            "with; leave trace_ti out"
        )
    context = int(calls.hub.new_context())
    children = calls.spawn(name, wanted)
    for child in children:
        calls.spawned[child] = (context, children, parents, comm.rank)
    line = _private(context, parents, children)
    words = [one.words for one in wanted for _ in range(one.count)]
    for child, text in enumerate(words):
        line.send(text, child, _WORDS)
    for child in range(len(children)):
        line.recv(None, child, _READY)
    return context, children, [one.count for one in wanted]


def begin_spawned() -> None:
    """Let a spawned rank wait for its command line, and answer: before its program begins."""
    calls = shared_calls("Get_parent")
    context, children, parents, root = calls.spawned[calls.hub.rank]
    line = _private(context, children, parents)
    line.recv(None, root, _WORDS)
    line.send(None, root, _READY)
    calls.parents[calls.hub.rank] = _between(context, children, parents)


def parent() -> Any:
    """Return the communicator to the ranks that have spawned this one; COMM_NULL where nobody has."""
    calls = shared_calls("Get_parent")
    return calls.parents.get(calls.hub.rank) or KNOWN["Intercomm"]()


def _between(context: int, local: list[int], remote: list[int]) -> Any:
    return KNOWN["Intercomm"]._joined(context, local, remote)


def _private(context: int, local: list[int], remote: list[int]) -> Any:
    line = KNOWN["Comm"](_between(context, local, remote))
    line._use_private_context()
    return line


def one_wanted(command: Any, args: Any, count: Any) -> Wanted:
    """Return the ranks that a call of `Spawn` asks for."""
    words = [] if args is None else [args] if isinstance(args, str | os.PathLike) else list(args)
    return Wanted(tuple(os.fspath(word) for word in (command, *words)), _number(count))


def all_wanted(commands: Any, args: Any, counts: Any, infos: Any) -> list[Wanted]:
    """Return the ranks that a call of `Spawn_multiple` asks for, by command."""
    if isinstance(commands, str):
        raise ValueError("command: expected a sequence of str, got a str")
    if isinstance(args, str):
        raise ValueError("args: expected a sequence with an entry for each command, got a str")
    commands = list(commands)
    n = len(commands)
    args = [None] * n if args is None else list(args)
    counts = [1] * n if counts is None else [counts] * n if isinstance(counts, int) else list(counts)
    hints = list(infos) if isinstance(infos, list | tuple) else [infos] * n
    for what, given in (("args", args), ("maxprocs", counts), ("info", hints)):
        if len(given) != n:
            raise ValueError(f"{what}: expecting {n} items, as many as commands, got {len(given)}")
    return [one_wanted(*one) for one in zip(commands, args, counts, strict=True)]


def _number(count: Any) -> int:
    if int(count) < 1:
        raise ValueError(f"maxprocs={count}: at least 1 rank can be started")
    return int(count)
