"""Messages of real ranks that hold a notebook's own classes and functions.

mpi4py pickles by name. A class of a notebook lives in its ``__main__``, which no rank has: it came here by
value, and has to go on by value. In a plain script the same program works, and so it has to work here.
"""

from __future__ import annotations

import functools
import io
import pickle
from types import FunctionType
from typing import Any

__all__ = ["dumps"]


@functools.cache
def _by_value() -> Any:
    """Return the pickler; what it is made of is loaded by the first message that needs it."""
    from labkit.process import by_value

    class Pickler(by_value.Pickler):
        """Takes by value what a script could pickle by name: a module's classes and functions."""

        def reducer_override(self, thing: Any) -> Any:
            if isinstance(thing, type | FunctionType) and "<" in thing.__qualname__:
                return NotImplemented  # defined in a function, or a lambda: pickle refuses those everywhere
            return super().reducer_override(thing)

    return Pickler


def dumps(thing: Any, protocol: int | None = None, buffer_callback: Any = None) -> bytes:
    """Pickle a message, by name where that is possible."""
    try:
        return pickle.dumps(thing, protocol, buffer_callback=buffer_callback)
    except (pickle.PicklingError, AttributeError):
        file = io.BytesIO()
        _by_value()(file, protocol, buffer_callback).dump(thing)
        return file.getvalue()
