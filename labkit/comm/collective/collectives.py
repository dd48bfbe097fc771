"""Collectives on buffers, blocking, nonblocking and persistent: each is one run of a schedule by the engine.

Every rank enters when it gets there; the first one chooses the algorithm, the others must agree with it in
what MPI wants to be the same everywhere. All ranks start the same collectives in the same order on a
communicator, blocking and nonblocking ones together; they may be over in any order. Buffers must stay as they
are until the request is complete.

What is assumed about progress of nonblocking collectives. Each rank's part is carried on by an agent of the
engine's, as a network adapter or a thread on a core of its own would: its messages are posted and matched
while the rank computes, share the network with all others, and cost the rank's processor nothing
(asynchronous progress). The call itself posts what can be posted at once and pays for that; everything after
the first wait is the agent's, the overheads of its messages included. A real MPI without asynchronous
progress goes on only inside calls: there a rank that computes for long has to `Test` now and then, and
overlaps less than here.

A nonblocking collective runs the schedule that its blocking twin would run (``coll=`` chooses for both). So
``Iallreduce(...).Wait()`` takes as long as ``Allreduce(...)``, and never less.

A start of a persistent collective does what the nonblocking call would do then. Each request has messages of
its own: they may be started in any order, also in another one at another rank (MPI 4, section 6.13); `info`
is not looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from labkit import _kernels
from labkit.comm.buffers import parse_simple
from labkit.comm.collective.makers import Maker, counts_of, maker_of
from labkit.comm.collective.native import arrive_shared, leave, perform, start
from labkit.comm.handles.base import is_in_place
from labkit.comm.handles.operators import OPERATORS
from labkit.comm.handles.status import Prequest
from labkit.comm.surface import METHODS, Method, made
from labkit.schedule.problem import PROBLEMS, Problem

__all__ = ["BufferCollectives"]


# Collective methods with a short way past Python, for calls of a form that has been seen before.


_Method = TypeVar("_Method", bound=Callable[..., Any])


def quick(method: _Method) -> _Method:
    """Let a method's plain calls go straight to the engine once one of their form has been carried out.

    What a form is and what is plain, kernels/bindings/hub/quick_calls.hpp says. The method may have the
    parameters `op`, `root`, and one or two buffers. All that it does must follow from its arguments, the
    communicator and whether the rank is the root; it ends in `labkit.comm.collective.native.perform`.
    """
    return _wrapped(method, keeps_own_block=False)


def quick_own_block(method: _Method) -> _Method:
    """Do as `quick`, for a method that with IN_PLACE sends the rank's own block, not the whole buffer."""
    return _wrapped(method, keeps_own_block=True)


def _wrapped(method: _Method, keeps_own_block: bool) -> _Method:
    make: Any = _kernels.QuickMethod
    made: Any = make(method, keeps_own_block)
    functools.update_wrapper(made, method)
    return made  # type: ignore[no-any-return]


class BufferCollectives:
    """The upper-case collectives of a communicator: made from the table of methods."""

    rank: int
    size: int

    def _collective_init(self, make: Maker, problem: Problem, name: str, *arguments: Any) -> Prequest:
        """Agree on messages of their own for the starts; what is wrong with the call is said now."""
        *given, _ = arguments  # info
        if name == "Reduce_scatter_init" and given[2] is None and not is_in_place(given[0]):
            # the ranks tell each other once, not at every start
            given[2] = counts_of(self, None, parse_simple(given[1], True).count, True)
        private = self._own_context(name, make(self, problem, name, *given).facts)
        return Prequest._of(lambda: start(private, make(self, problem, name, *given)))

    def _own_context(self, name: str, facts: dict[str, Any]) -> Any:
        """Return a handle of the communicator with a context that the ranks' calls of this one share."""
        calls, shared = arrive_shared(self, name, facts)
        if "context" not in shared.made:
            shared.made["context"] = calls.hub.new_context()
        leave(name)
        kind: Any = type(self)
        private = kind(self)
        private._use_context(shared.made["context"])
        return private


_EXPRESSIONS = {
    "blocking": "perform(self, make(self, problem, {name!r}{rest}))",
    "nonblocking": "start(self, make(self, problem, {name!r}{rest}))",
    "persistent": "self._collective_init(make, problem, {name!r}{rest})",
}


def _method(method: Method) -> Callable[..., Any]:
    problem = PROBLEMS[method.problem]
    rest = f", {method.arguments}" if method.arguments else ""
    space = {
        "perform": perform, "start": start, "make": maker_of(method), "problem": problem,
        "SUM": OPERATORS["SUM"], "__name__": __name__,
    }  # fmt: skip
    expression = _EXPRESSIONS[method.form].format(name=method.name, rest=rest)
    function = made(method, expression, space, "Intracomm")
    if method.form != "blocking" or problem.layout == "table":
        return function
    keeps_own = (problem.shapes.get("send"), problem.shapes.get("recv")) == ("one", "all")
    return quick_own_block(function) if keeps_own else quick(function)


for _row in METHODS:
    if _row.problem:
        setattr(BufferCollectives, _row.name, _method(_row))
