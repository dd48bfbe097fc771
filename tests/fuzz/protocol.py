"""Fuzzing target: frames and values that a submission's process sends to the grader."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from typing import Any

import numpy as np

from labkit.errors import DataError
from labkit.grading.sandbox.proxy import argument, made_from, text, whole_number
from labkit.grading.sandbox.wire import Frames, WireError, decode, encode

__all__ = ["SEEDS", "check"]


def _frame(header: Any, *parts: bytes) -> bytes:
    text = json.dumps({**header, "parts": [len(part) for part in parts]}).encode()
    return struct.pack(">II", len(text), sum(map(len, parts))) + text + b"".join(parts)


def _value(value: Any) -> bytes:
    parts: list[Any] = []
    return _frame({"op": "result", "value": encode(value, parts)}, *parts)


SEEDS = [
    _value([1, 2**70, 1.5, "a", b"xy", None, True, {"a": (1, 2)}, np.arange(4.0), np.int8(3)]),
    _value(np.zeros((2, 3), np.complex128)),
    _frame(
        {"op": "collective", "name": "Allreduce", "args": [["INT64_T", 1, None], "in place", "SUM"]}, bytes(8)
    ),
    _frame({"op": "make", "name": "Create_cart", "args": [[2, 2], [1, 0], [0]], "at": [3, "f"]}),
    _frame({"op": "requests", "mode": "waitall", "numbers": [1, 2], "out": "printed"}),
]


def check(data: bytes) -> None:
    """Receive the bytes; whatever they are, the grader has a value or one of its own errors."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        theirs.send(data) if data else None
        theirs.close()
        try:
            header, parts = Frames(ours.fileno()).read(time.monotonic() + 5)
        except WireError:
            return
    assert isinstance(header, dict)
    try:
        value = decode(header.get("value"), parts)
    except WireError:
        pass
    else:
        with contextlib.suppress(DataError):
            encode(value, [])
    args = header.get("args")
    for item in args if isinstance(args, list) else [args]:
        for kind in ("root", "op", "counts", "read", "write"):
            try:
                argument(kind, item, iter([np.zeros(4, np.uint8)]), [], lambda number, commutes: None)
            except (TypeError, ValueError, KeyError, IndexError, OverflowError, StopIteration):
                continue
    for name in ("Create_cart", "Sub", "Split"):
        try:
            made_from(name, args)
        except (TypeError, ValueError):
            continue
    text(header.get("text"), 100)
    with contextlib.suppress(TypeError):
        whole_number(header.get("comm"))
