"""The test that a module which was written down anew defines what it was written from."""

from __future__ import annotations

import bisect
import dis
import inspect
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

__all__ = ["difference", "executed", "same_code"]

_ALIKE = (
    "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_kwonlyargcount",
    "co_posonlyargcount", "co_flags", "co_name",
)  # fmt: skip

_UNIMPORTANT = {"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL", "RESUME"}
_SAME_NAME = {"LOAD_METHOD": "LOAD_ATTR", "CALL_METHOD": "CALL"}
_JUMPS = {*dis.hasjabs, *dis.hasjrel}


def executed(text: str, values: Mapping[str, Any], name: str = "<bundled>") -> dict[str, Any]:
    """Execute a module's text in a namespace of its own, and return that.

    The values stand in it before the text runs, as a definition may need them.
    """
    names: dict[str, Any] = {"__name__": "labkit_bundled", **values}
    exec(compile(text, name, "exec", dont_inherit=True), names)
    return names


def difference(text: str, values: Mapping[str, Any], originals: Mapping[str, Any]) -> str | None:
    """Say what a module defines otherwise than the functions and classes it was written from.

    Returns
    -------
    str or None
        None when all of them have the same code.
    """
    try:
        names = executed(text, values)
    except Exception as error:  # it is the user's code
        return f"its text cannot be executed alone ({type(error).__name__}: {error})"
    for name, original in originals.items():
        if not _is_same(names.get(name), original):
            return f"{name}: executed anew, its text gives another code"
    return None


def same_code(one: CodeType, other: CodeType) -> bool:
    """Whether two codes do the same: equal but for their places in files.

    The compiler writes a call of an imported module's function otherwise when the import stands in the same
    cell or file; that is looked over.
    """
    if any(getattr(one, name) != getattr(other, name) for name in _ALIKE):
        return False
    mine, theirs = list(_steps(one)), list(_steps(other))
    if len(mine) != len(theirs):
        return False
    for (name, value), (other_name, other_value) in zip(mine, theirs, strict=True):
        if name != other_name:
            return False
        if isinstance(value, CodeType) and isinstance(other_value, CodeType):
            if not same_code(value, other_value):
                return False
        elif type(value) is not type(other_value) or repr(value) != repr(other_value):
            return False
    return True


def _steps(code: CodeType) -> Iterator[tuple[str, Any]]:
    """Return a code's instructions with what they mean; jumps by the number of the instruction they reach."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in _UNIMPORTANT]
    numbers = {step.offset: number for number, step in enumerate(steps)}
    offsets = sorted(numbers)
    for step in steps:
        value = step.argval
        if step.opcode in _JUMPS:  # what it reaches may be one of those left out
            at = bisect.bisect_left(offsets, value)
            value = numbers[offsets[at]] if at < len(offsets) else len(steps)
        yield _SAME_NAME.get(step.opname, step.opname), value


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, type) and isinstance(other, type):
        mine, theirs = _own(one), _own(other)
        return mine.keys() == theirs.keys() and all(_is_same(mine[k], theirs[k]) for k in mine)
    if isinstance(one, bool | int | float | str | bytes | tuple | None):
        return type(one) is type(other) and repr(one) == repr(other)
    if not isinstance(one, FunctionType) or not isinstance(other, FunctionType):
        return False
    if not same_code(one.__code__, other.__code__) or not _same_defaults(one, other):
        return False
    inner, theirs = inspect.unwrap(one), inspect.unwrap(other)
    return inner is one or theirs is other or _is_same(inner, theirs)


def _own(kind: type) -> dict[str, Any]:
    """Return a class's methods and constants."""
    plain = (FunctionType, bool, int, float, str, bytes, tuple)
    hidden = ("__module__", "__qualname__", "__firstlineno__", "__static_attributes__")
    return {name: one for name, one in vars(kind).items() if isinstance(one, plain) and name not in hidden}


def _same_defaults(one: FunctionType, other: FunctionType) -> bool:
    return repr(one.__defaults__) == repr(other.__defaults__) and repr(one.__kwdefaults__) == repr(
        other.__kwdefaults__
    )
