"""The state of `logging`: each rank's own handlers, levels and filters, of loggers that all ranks share.

A logger belongs to the library that made it; what a rank attaches to it, and the level it sets, is the
rank's. In a rank these attributes of every logger begin as they were outside, and are its own from then on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from labkit.sim.isolation.patches import Patch, Patches

__all__ = ["RankLogs", "register_logs"]

#: where a run keeps its ranks' state: by rank, logger and attribute
Store = dict[tuple[int, int, str], Any]

_find: Callable[[], tuple[Store, int] | None] = lambda: None  # noqa: E731


def register_logs(find: Callable[[], tuple[Store, int] | None]) -> None:
    """Register what returns the running rank's store and number, None outside ranks."""
    global _find
    _find = find


class _Own:
    """An attribute of all loggers that is each rank's own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, logger: Any, kind: Any = None) -> Any:
        if logger is None:
            return self
        found = _find()
        if found is None:
            return self._outside(logger)
        store, rank = found
        key = (rank, id(logger), self._name)
        if key not in store:
            value = self._outside(logger)
            store[key] = {} if self._name == "_cache" else list(value) if isinstance(value, list) else value
        return store[key]

    def _outside(self, logger: Any) -> Any:
        try:
            return logger.__dict__[self._name]
        except KeyError:
            raise AttributeError(self._name) from None

    def __set__(self, logger: Any, value: Any) -> None:
        found = _find()
        if found is None or self._name not in logger.__dict__:  # a new one begins like this for all ranks
            logger.__dict__[self._name] = value
            return
        store, rank = found
        store[rank, id(logger), self._name] = value

    def __delete__(self, logger: Any) -> None:
        logger.__dict__.pop(self._name, None)


def _patches() -> Iterator[Patch]:
    for name in ("handlers", "filters", "level", "disabled", "propagate", "_cache"):
        yield logging.Logger, name, _Own(name)
    yield logging.Manager, "_disable", _Own("_disable")
    yield logging, "setLogRecordFactory", _set_factory
    yield logging, "getLogRecordFactory", _factory
    whole = logging.getLogRecordFactory()
    yield logging, "_logRecordFactory", lambda *args, **kwargs: (_own_factory() or whole)(*args, **kwargs)


#: context in which each rank has its own logging
RankLogs = Patches(_patches)


def _own_factory() -> Any:
    found = _find()
    return None if found is None else found[0].get((found[1], 0, "factory"))


def _set_factory(factory: Any) -> None:
    found = _find()
    if found is None:
        logging._logRecordFactory = factory  # type: ignore[attr-defined]
    else:
        found[0][found[1], 0, "factory"] = factory


def _factory() -> Any:
    return _own_factory() or logging._logRecordFactory  # type: ignore[attr-defined]
