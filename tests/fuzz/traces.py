"""Fuzzing target: the readers of time-independent traces and GOAL, and the replay of what they accept."""

from __future__ import annotations

import tempfile
from pathlib import Path

import labkit as lk
from labkit.errors import LabkitError

__all__ = ["SEEDS", "check"]

SEEDS = [
    b"#+ comm 3 0-1\n0 init\n0 compute 1e6\n0 isend 1 0 1024 6\n0 waitall 1\n"
    b"0 allreduce 10 5e3 0 comm=3\n0 barrier\n0 alltoallv 4 2 2 4 2 2 6 6\n1 recv 0 0 -1 6\n"
    b"1 allreduce 10 5e3 0 comm=3\n1 barrier\n1 alltoallv 4 2 2 4 2 2\n",
    b"num_ranks 2\nrank 0 {\nl1: calc 100\nl2: send 10b to 1 tag 4\nl2 requires l1\n}\nrank 1 {\n"
    b"a: recv 10b from 0 tag 4 /* x */\nb: calc 4 // y\nb irequires a\n}\n",
]


def check(data: bytes) -> bool:
    """Replay the bytes; True if they are a trace. A LabkitError is an answer, anything else a finding."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(data)
        try:
            lk.replay(path, "star", model="raw", timeout_s=10)
        except LabkitError:
            return False
    return True
