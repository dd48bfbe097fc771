"""Elements of a datatype in a number of bytes, counted."""

from __future__ import annotations

from labkit.comm.handles.constants import UNDEFINED
from labkit.comm.handles.typebody import TypeBody

__all__ = ["basic_elements", "bytes_of_basic", "whole_elements"]


def whole_elements(body: TypeBody, received: int) -> int:
    """Return the number of elements; UNDEFINED where the bytes are no multiple of one."""
    size = body.map.size
    if size == 0:
        return 0 if received == 0 else UNDEFINED
    return received // size if received % size == 0 else UNDEFINED


def basic_elements(body: TypeBody, received: int) -> int:
    """Return the number of basic elements; UNDEFINED where the last one came in part."""
    size, parts = body.map.size, _parts(body)
    if size == 0:
        return 0 if received == 0 else UNDEFINED
    found, rest = received // size * sum(count for _, count in parts), received % size
    for part, count in parts:
        whole = min(count, rest // part)
        found, rest = found + whole, rest - whole * part
        if whole < count:
            break
    return found if rest == 0 else UNDEFINED


def bytes_of_basic(body: TypeBody, count: int) -> int:
    """Return the bytes of so many basic elements."""
    parts = _parts(body)
    in_one = sum(many for _, many in parts)
    if in_one == 0:
        return 0
    wholes, rest = divmod(count, in_one)
    n_bytes = wholes * body.map.size
    for part, many in parts:
        n_bytes, rest = n_bytes + part * min(rest, many), rest - min(rest, many)
    return n_bytes


def _parts(body: TypeBody) -> list[tuple[int, int]]:
    """Return the sizes of the basic elements in an element, and how many there are in a row."""
    return [(kind.map.size, times) for kind, times in body.basics()]
