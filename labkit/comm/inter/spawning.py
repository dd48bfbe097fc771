"""Ranks that start while the job goes on: `Spawn`, and the communicator that they and their parents have.

New ranks are a world of their own (`Comm.Get_parent` leads back). What it costs is what its messages cost on
the simulated network: the root sends each new rank the words of its command line, a rank's program begins
when they have come, each answers, and `Spawn` is over when the root has all answers and has told its
communicator. To start a process takes no simulated time besides.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.comm.collective.native import arrive, leave, shared_calls
from labkit.comm.handles.base import KNOWN
from labkit.errors import UnsupportedError

__all__ = ["Spawning", "Wanted", "begin_spawned", "parent"]

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


class Spawning:
    """How the ranks of a communicator start others."""

    rank: int
    _world_ranks: Callable[[], list[int]]
    bcast: Callable[..., Any]

    def Spawn(
        self,
        command: str,
        args: Sequence[str] | str | None = None,
        maxprocs: int = 1,
        info: Any = None,
        root: int = 0,
        errcodes: list[int] | None = None,
    ) -> Any:
        """Start ranks of a Python program; the intercommunicator to them.

        Parameters
        ----------
        command : str
            ``sys.executable``, with a script among `args`, or a script. Looked at by the root only, as are
            `args`, `maxprocs` and `info` (hints are not heeded).
        args : str or sequence of str, optional
        maxprocs : int
            How many.
        root : int
        errcodes : list, optional
            Filled with a 0 for each.
        """
        made, counts = self._spawn("Spawn", root, lambda: [_wanted(command, args, maxprocs)])
        if errcodes is not None:
            errcodes[:] = [0] * counts[0]
        return made

    def Spawn_multiple(
        self,
        command: Sequence[str],
        args: Sequence[Any] | None = None,
        maxprocs: Sequence[int] | int | None = None,
        info: Any = None,
        root: int = 0,
        errcodes: list[list[int]] | None = None,
    ) -> Any:
        """Start ranks of several programs, which have one world; the intercommunicator to them.

        Parameters
        ----------
        command : sequence of str
        args : sequence of (str or sequence of str or None), optional
            Of each command.
        maxprocs : int or sequence of int, optional
            Of each; default: 1.
        root : int
        errcodes : list, optional
            Filled with a list for each command.
        """
        wanted = (command, args, maxprocs, info)
        made, counts = self._spawn("Spawn_multiple", root, lambda: _all_wanted(*wanted))
        if errcodes is not None:
            errcodes[:] = [[0] * count for count in counts]
        return made

    def _spawn(self, name: str, root: int, wanted: Callable[[], list[Wanted]]) -> tuple[Any, list[int]]:
        """Start them; the communicator, and how many each command has."""
        arrive(self, name, {"root": root})
        leave(name)
        news = self._start(name, wanted()) if self.rank == root else None
        context, children, counts = self.bcast(news, root)
        return _between(context, self._world_ranks(), children), counts

    def _start(self, name: str, wanted: list[Wanted]) -> tuple[int, list[int], list[int]]:
        calls, parents = shared_calls(name), self._world_ranks()
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
            calls.spawned[child] = (context, children, parents, self.rank)
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


def _wanted(command: Any, args: Any, count: Any) -> Wanted:
    words = [] if args is None else [args] if isinstance(args, str | os.PathLike) else list(args)
    return Wanted(tuple(os.fspath(word) for word in (command, *words)), _number(count))


def _all_wanted(commands: Any, args: Any, counts: Any, infos: Any) -> list[Wanted]:
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
    return [_wanted(*one) for one in zip(commands, args, counts, strict=True)]


def _number(count: Any) -> int:
    if int(count) < 1:
        raise ValueError(f"maxprocs={count}: at least 1 rank can be started")
    return int(count)
