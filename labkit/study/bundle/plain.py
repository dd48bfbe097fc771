"""Objects of labkit as plain JSON and back, without pickle: what a reader can read, no reader has to run.

Numbers, texts, lists and dicts stay themselves. A labkit object (a platform, a model, a mapping) becomes its
class and its state; only classes of labkit are made again, and making one calls none of its code.
"""

from __future__ import annotations

import base64
import importlib
import io
import math
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np

from labkit.errors import DataError
from labkit.result import ByRank

__all__ = ["ANSWER", "REQUEST", "NotPlain", "decode", "encode"]

#: files in which a program that runs again is told what to run, and says what came out
REQUEST, ANSWER = "request.json", "answer.jsonl"

#: where the classes live whose objects may be written
_HOMES = ("labkit.platform.", "labkit.sim.", "labkit.local.", "labkit.tolerance", "labkit.result")
_DEEPEST = 60

Fallback = Callable[[Any], Any]


class NotPlain(TypeError):
    """A value that has no plain form."""


def encode(value: Any, fallback: Fallback | None = None, depth: int = 0) -> Any:
    """Return a value as JSON can hold it.

    Parameters
    ----------
    value : object
        Numbers, texts, None, NumPy's numbers and arrays, lists, tuples, sets, dicts, objects of labkit.
    fallback : callable, optional
        Gets what has no plain form and returns one; without it such a value is refused.

    Raises
    ------
    NotPlain
        There is no plain form.
    """
    if depth > _DEEPEST:
        raise NotPlain("it is nested too deeply, or contains itself")
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}

    def inner(part: Any) -> Any:
        return encode(part, fallback, depth + 1)

    if type(value) in (list, ByRank):
        return [inner(part) for part in value]
    if type(value) in (tuple, set, frozenset):
        parts = value if isinstance(value, tuple) else sorted(value, key=repr)
        return {f"${type(value).__name__}": [inner(part) for part in parts]}
    if type(value) is range:
        return {"$range": [value.start, value.stop, value.step]}
    if type(value) is dict:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: inner(part) for key, part in value.items()}
        return {"$items": [[inner(key), inner(part)] for key, part in value.items()]}
    if isinstance(value, np.generic | np.ndarray) and not value.dtype.hasobject:
        return {"$array" if isinstance(value, np.ndarray) else "$scalar": _packed(value)}
    if _is_own(type(value)):
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        return {"$object": name, "state": {key: inner(part) for key, part in _state(value).items()}}
    if fallback is None:
        raise NotPlain(f"a {type(value).__name__} has no plain form")
    return fallback(value)


def decode(value: Any, special: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """Return the value that `encode` wrote."""
    if isinstance(value, list):
        return [decode(part, special) for part in value]
    if not isinstance(value, dict):
        return value
    word = next((key for key in value if key.startswith("$")), None)
    if word is None:
        return {key: decode(part, special) for key, part in value.items()}
    if word in _READERS:
        try:
            return _READERS[word](decode(value[word], special))
        except (TypeError, ValueError, KeyError) as error:
            raise DataError(f"a value of the recipe cannot be read ({word}: {error})") from error
    if word == "$object":
        return _made(str(value[word]), decode(value["state"], special))
    if special is None:
        raise DataError(f"a value of the recipe is of an unknown kind, {word}")
    return special(value)


def _is_own(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return kind.__module__.startswith(_HOMES) and getattr(module, kind.__qualname__, None) is kind


def _state(thing: Any) -> dict[str, Any]:
    """Return an object's attributes without what it only remembers of computations."""
    own = next(vars(kind)["__getstate__"] for kind in type(thing).__mro__ if "__getstate__" in vars(kind))
    if own is not vars(object)["__getstate__"]:
        state: Any = thing.__getstate__()
    else:
        slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        state = {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
        state |= getattr(thing, "__dict__", {})
    if isinstance(state, list | tuple):  # dataclasses with slots give the values of their fields
        state = dict(zip(type(thing).__dataclass_fields__, state, strict=True))
    cached = {name for kind in type(thing).__mro__ for name, what in vars(kind).items()
              if isinstance(what, cached_property)}  # fmt: skip
    return {name: part for name, part in state.items() if name not in cached}


def _made(name: str, state: Any) -> Any:
    module, _, kind = name.partition(":")
    try:
        if not module.startswith(_HOMES):
            raise DataError(f"the recipe asks for {name!r}, which is no description of a machine")
        found = getattr(importlib.import_module(module), kind)
        if not isinstance(found, type) or not _is_own(found) or not isinstance(state, dict):
            raise DataError(f"the recipe asks for {name!r}, which is no class of labkit")
        thing: Any = object.__new__(found)
        kept = fields(found) if is_dataclass(found) else ()  # the recipe may be older than a field
        later = {one.name: one.default for one in kept if one.default is not MISSING}
        for attribute, part in {**later, **state}.items():
            object.__setattr__(thing, str(attribute), part)
    except (ImportError, AttributeError, TypeError) as error:
        raise DataError(f"this labkit has no {name!r} as the recipe knows it: {error}") from error
    return thing


def _packed(value: Any) -> str:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(value) if getattr(value, "ndim", 0) else value, allow_pickle=False)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _unpacked(text: str) -> Any:
    return np.load(io.BytesIO(base64.b64decode(text, validate=True)), allow_pickle=False)


_READERS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$range": lambda parts: range(*parts),
    "$items": dict,
    "$array": _unpacked,
    "$scalar": lambda text: _unpacked(text)[()],
}
