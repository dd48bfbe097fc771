"""Calls of a collective carried out by labkit's schedules over mpi4py's messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit import registry
from labkit.errors import DataError
from labkit.real.collectives.messages import Message, read_call
from labkit.schedule import Problem
from labkit.schedule.execute import Prepared
from labkit.selector import Situation
from labkit.selector.settled import settled

__all__ = ["Carried", "situation_of"]

#: a tag that only private communicators see
_TAG = 11


def situation_of(problem: Problem, ranks: int, args: Any, kwargs: Any) -> Situation:
    """Return what a choice may depend on: bytes (0 where ranks may differ in them), and the operator.

    Of blocks of any sizes whose table all ranks have, their mean counts.
    """
    given = dict(zip(problem.arguments, args, strict=False)) | kwargs
    unknown = [name for name in given if name not in problem.arguments] or args[len(problem.arguments) :]
    if unknown:
        raise DataError(f"{problem.method} takes {', '.join(problem.arguments)}; got {unknown[0]!r} besides")
    op = given.get("op")
    commutes = True if op is None or not problem.is_reduction else bool(op.Is_commutative())
    is_known_to_all = not problem.is_rooted and problem.shapes.get("send") != problem.shapes.get("recv")
    if problem.layout == "table" and is_known_to_all:
        table = given.get("sendbuf") if problem.is_reduction else given.get("recvbuf")
        size = Message.bytes_of(table, ranks)
        if size is None:  # all blocks lie in the receive buffer
            size = Message.bytes_of(given.get("recvbuf"), ranks)
        return Situation(problem.name, ranks, size or 0, commutes)
    if problem.layout == "table" or not problem.shapes:
        return Situation(problem.name, ranks, 0, commutes)
    blocks = {"all": ranks}
    sizes = (
        Message.bytes_of(given.get(argument), blocks.get(problem.shapes[buffer], 1))
        for buffer, argument in zip(problem.shapes, problem.arguments, strict=False)
    )
    return Situation(problem.name, ranks, next((size for size in sizes if size is not None), 0), commutes)


class Carried:
    """The calls of one collective on one communicator, by whichever algorithm.

    Parameters
    ----------
    problem : Problem
    node : int or None
        How many consecutive ranks share a host.
    """

    def __init__(self, problem: Problem, node: int | None) -> None:
        self._problem, self._node = problem, node
        self._prepared: dict[tuple[str, int, bool], Prepared] = {}

    def read(self, comm: Any, args: Any, kwargs: Any) -> Message:
        """Return a call's message.

        Raises
        ------
        DataError
            For a message that is not contiguous, or of a datatype that is not predefined.
        """
        return read_call(comm, self._problem, args, kwargs)

    def begin(
        self,
        comm: Any,
        name: str,
        at: Situation,
        message: Message,
        is_at_once: bool = False,
        tag: int = _TAG,
    ) -> Callable[[], None]:
        """Carry out this rank's part up to the first wait; the function returned does the rest.

        Parameters
        ----------
        comm : communicator
            A private one, always the same: its messages are nobody else's.
        name : str
            An algorithm's, whose open numbers this call settles.
        at : Situation
        message : Message
            What was `read`.
        is_at_once : bool
            Do all of it now.
        tag : int
            Of its messages: another one than those of calls under way.
        """
        name = settled(at, name, self._node)
        key = (name, message.root, at.is_commutative)
        run = self._prepared.get(key)
        if run is None:
            schedule = registry.get(self._problem.name, name).build(at.ranks, message.root, at.is_commutative)
            run = self._prepared[key] = Prepared(comm, schedule, _TAG)
        given = {**message.run_arguments(), "tag": tag}
        if is_at_once:
            run(**given)
            return message.restore
        finish = run.begin(**given)

        def rest() -> None:
            finish()
            message.restore()

        return rest
