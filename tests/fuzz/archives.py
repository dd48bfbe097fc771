"""Fuzzing target: OTF2 archives with one damaged file; the library that reads them is not ours."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import labkit as lk
from labkit.errors import LabkitError

__all__ = ["SEEDS", "check"]


def _program(comm: Any) -> None:
    lk.phase("all").__enter__()
    comm.Allreduce(np.ones(8), np.empty(8))
    request = comm.Irecv(np.empty(4), (comm.rank - 1) % comm.size)
    comm.Send(np.ones(4), (comm.rank + 1) % comm.size)
    request.Wait()


def _files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        lk.run(_program, 2, on="star:2", trace=True).export(Path(folder) / "a.otf2")
        root = Path(folder) / "a.otf2"
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


_FILES = _files()
_NAMES = sorted(_FILES)
SEEDS = [bytes([number]) + _FILES[name] for number, name in enumerate(_NAMES)]


def check(data: bytes) -> None:
    """Read an archive in which the bytes are the file that the first one names."""
    if not data:
        return
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(_NAMES):
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data[1:] if number == data[0] % len(_NAMES) else _FILES[name])
        try:
            run = lk.read_trace(folder)
            run.waits()
        except LabkitError as error:
            if len(str(error)) > 2500:
                raise AssertionError("an error of unbounded length") from error
