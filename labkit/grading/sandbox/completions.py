"""Waits and tests of a submission's requests, carried out on the grader's own requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.grading.sandbox.asked import new_status

__all__ = ["MODES"]

#: positions of those that are over (None: too few are), what they received, their statuses
_Over = tuple[list[int] | None, list[Any], list[Any]]
_Call = Callable[[Any, Any], Any]


def _statuses(open_: list[Any]) -> list[Any]:
    return [new_status() for _ in open_]


def _wait_all(call: _Call, kind: Any, open_: list[Any]) -> _Over:
    statuses = _statuses(open_)
    data = call(kind.waitall, (open_, statuses))
    return list(range(len(open_))), data, statuses


def _test_all(call: _Call, kind: Any, open_: list[Any]) -> _Over:
    statuses = _statuses(open_)
    flag, data = call(kind.testall, (open_, statuses))
    return (list(range(len(open_))), data, statuses) if flag else (None, [], [])


def _wait_any(call: _Call, kind: Any, open_: list[Any]) -> _Over:
    status = new_status()
    index, data = call(kind.waitany, (open_, status))
    return [index], [data], [status]


def _test_any(call: _Call, kind: Any, open_: list[Any]) -> _Over:
    status = new_status()
    index, flag, data = call(kind.testany, (open_, status))
    return ([index], [data], [status]) if flag and index >= 0 else (None, [], [])


def _wait_some(call: _Call, kind: Any, open_: list[Any]) -> _Over:
    statuses = _statuses(open_)
    over, data = call(kind.waitsome, (open_, statuses))
    return list(over), data, statuses[: len(over)]


def _test_some(call: _Call, kind: Any, open_: list[Any]) -> _Over:
    statuses = _statuses(open_)
    over, data = call(kind.testsome, (open_, statuses))
    return (list(over), data, statuses[: len(over)]) if over else (None, [], [])


#: ``mode(call, Request, requests)``; `call` makes a call that reports name the submission's line of
MODES: dict[str, Callable[[_Call, Any, list[Any]], _Over]] = {
    "waitall": _wait_all,
    "testall": _test_all,
    "waitany": _wait_any,
    "testany": _test_any,
    "waitsome": _wait_some,
    "testsome": _test_some,
}
