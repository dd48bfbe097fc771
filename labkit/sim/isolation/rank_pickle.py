"""Messages between isolated ranks: an object's class arrives as the receiver's own copy of that class."""

from __future__ import annotations

import io
import pickle
from types import FunctionType, TracebackType
from typing import Any

from labkit import _kernels
from labkit.comm import pickling
from labkit.sim.isolation.isolation import Isolation

__all__ = ["RankPickle"]

_PLAIN = frozenset({int, float, bool, str, bytes, type(None), complex})
_active: list[RankPickle] = []


class RankPickle:
    """Context that pickles ranks' copies of classes and functions by name.

    Parameters
    ----------
    isolation : Isolation
    """

    def __init__(self, isolation: Isolation) -> None:
        self.isolation = isolation
        self._by_name: dict[tuple[str, str], Any] = {}

    def __enter__(self) -> RankPickle:
        _active.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _active.pop()
        pickling.use_in_run(_active[-1].dumps if _active and _active[-1].isolation.has_classes else None)

    def install(self) -> None:
        """Start, if the program has classes of its own (plain pickle is faster)."""
        if self.isolation.has_classes:
            pickling.use_in_run(self.dumps)

    def dumps(self, obj: Any, protocol: int | None = None, buffer_callback: Any = None) -> bytes:
        """Return an object as bytes."""
        if type(obj) in _PLAIN:
            return pickle.dumps(obj, protocol)
        out = io.BytesIO()
        _Pickler(out, self, protocol, buffer_callback).dump(obj)
        return out.getvalue()

    def name(self, copy: Any) -> tuple[str, str] | None:
        """Return module and name of what a rank's class or function is a copy of; None for anything else."""
        original = self.isolation.original(copy)
        if original is None or "<locals>" in original.__qualname__:
            return None  # what is defined in a function cannot be pickled by name: let pickle say so
        key = (original.__module__, original.__qualname__)
        self._by_name[key] = original
        return key

    def find(self, key: tuple[str, str]) -> Any:
        """Return the running rank's copy."""
        return self.isolation.copied(_kernels.current_rank(), self._by_name[key])


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, owner: RankPickle, protocol: int | None, callback: Any) -> None:
        super().__init__(out, protocol, buffer_callback=callback)
        self._owner = owner

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | FunctionType):
            key = self._owner.name(obj)
            if key is not None:
                return _find, key
        return NotImplemented


def _find(module: str, name: str) -> Any:
    return _active[-1].find((module, name))
