"""Methods in place of mpi4py's, which note the program's calls: one for each row of mpi4py's surface."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from labkit.comm.surface import Method, made
from labkit.trace.recorder.ledger import Ledger

__all__ = ["guarded", "noted_methods"]

_Call = Callable[..., Any]


def noted_methods(
    ledger: Ledger, own: dict[str, Any], rows: Iterable[Method], note: Callable[[Method, _Call], _Call | None]
) -> dict[str, Any]:
    """Return what stands for methods of a class.

    Parameters
    ----------
    ledger : Ledger
    own : dict
        What the class itself defines, by name.
    rows : iterable of Method
        Those that are asked for, of `labkit.comm.surface`.
    note : callable
        ``note(row, original)`` returns what makes the call and notes it, given the communicator and all
        arguments by position; None leaves the method as it is.
    """
    methods: dict[str, Any] = {}
    defaults = {"ANY_SOURCE": ledger.any_source, "ANY_TAG": ledger.any_tag, "SUM": ledger.sum}
    for row in rows:
        original = own.get(row.name)
        if original is None:
            continue
        noted = note(row, original)
        if noted is not None:
            space = {**defaults, "call": guarded(ledger, row.name, original, noted)}
            methods[row.name] = made(row, "call(self, {args})", space)
    return methods


def guarded(ledger: Ledger, name: str, original: _Call, noted: _Call) -> _Call:
    """Return a call that is noted, unless it is one that mpi4py, or an operator, makes inside another."""
    number = ledger.number(name)
    begin, here, end, summary = ledger.log.enter, ledger.here, ledger.log.leave, ledger.summary

    def call(self_: Any, *arguments: Any, **named: Any) -> Any:
        if ledger.is_busy:
            return original(self_, *arguments, **named)
        ledger.is_busy = True  # `Ledger.enter` and `leave`, here for their cost: two frames of Python a call
        begin(number, here())
        try:
            return noted(self_, *arguments, **named)
        finally:
            ledger.is_busy = False
            end()
            if summary is not None:
                summary.left()

    return call
