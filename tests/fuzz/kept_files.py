"""Fuzzing target: files that labkit has written and reads again, changed by somebody or damaged.

Baselines, recorded computation, histories of tuning, archives of work, and the profiles of Slurm.
"""

from __future__ import annotations

import io
import json
import math
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import labkit as lk
from labkit.errors import LabkitError
from labkit.jupyter.save_work import restore_work
from labkit.real.slurm.options import slurm
from labkit.sim.measured import Records
from labkit.testing.plugin import read_baseline
from labkit.tuning.runtime.history import History

__all__ = ["SEEDS", "check"]

_TIMES = b'{"ring": [0.25, 0.01], "tree": [0.5, 0.02]}'


def _baseline(path: Path) -> None:
    found = read_baseline(path)
    assert found is not None
    factor = found.factor({"4": 1.0, "8": 2.0})
    assert factor is None or factor[0] > 0, factor


def _recorded(path: Path) -> None:
    found = Records.at(str(path))
    for key in found.kept:
        computation = found.find(key)
        assert computation is not None
        assert 0 <= computation.total_s < math.inf, computation


def _history(path: Path, key: str = "k") -> None:
    """Ask a history; a text that is no database stands in one as the times of a decision and of a search."""
    content = path.read_bytes()
    if not content.startswith(b"SQLite"):
        path.unlink()
        History(path, _Alone(), key, 8.0).keep({"ring": 0.25, "tree": 0.5}, "ring")  # type: ignore[arg-type]
        with closing(sqlite3.connect(path)) as base, base:
            text = content.decode("utf-8", "replace")
            base.execute("UPDATE decisions SET times = ?", (text,))
            base.execute("INSERT INTO unfinished (key, bytes, times) VALUES (?, 8.0, ?)", (key, text))
    history: Any = History(path, _Alone(), key, 8.0)  # type: ignore[arg-type]
    for ask in (history.find_unfinished, lambda: history.find(["ring", "tree"], 0.1)):
        try:
            found = ask()
        except LabkitError:
            continue
        if isinstance(found, dict):
            assert all(0 <= time < math.inf and 0 <= error < math.inf for time, error in found.values())
        elif found is not None:
            assert 0 <= found.time_s < math.inf


class _Alone:
    """A communicator of one rank."""

    def Get_rank(self) -> int:  # noqa: N802
        return 0

    def bcast(self, value: object, root: int) -> object:
        return value


def _work(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        restore_work(path, folder)


#: by the first byte: the file's ending, and what reads it
_READERS: dict[bytes, tuple[str, Callable[[Path], Any]]] = {
    b"b": ("json", _baseline),
    b"r": ("json", _recorded),
    b"h": ("sqlite", _history),
    b"w": ("zip", _work),
    b"s": ("toml", lambda path: slurm(f"{path}:big")),
}


def _archive() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.ipynb", json.dumps({"cells": [], "metadata": {}}) * 3)
        archive.writestr("results/b.txt", "b" * 30)
    return made.getvalue()


def _program(comm: Any) -> None:
    sum(range(1000))
    comm.barrier()


def _seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "a.json"
        lk.run(_program, 2, on="star", compute=f"recorded:{kept}")
        history = Path(folder) / "a.sqlite"
        History(history, _Alone(), "k", 8.0).keep({"ring": 0.25}, "ring")  # type: ignore[arg-type]
        with closing(sqlite3.connect(history)) as base:
            base.execute("PRAGMA page_size = 512")
            base.execute("VACUUM")
        return [b"r" + kept.read_bytes(), b"h" + history.read_bytes()]


SEEDS = [
    b'b{"growth": "log p", "model": "1 + log2(p)", "parameter": "p", "values": {"4": 1.0, "8": 2.0}, '
    b'"made_with": {"labkit": "1"}}',
    b"h" + _TIMES,
    b'h{"ring": 0.25, "tree": 0.5}',
    b"w" + _archive(),
    b"s[default]\ntime = '30'\nmax_jobs = 3\nextra = ['--gres=gpu:1']\n[big]\nnodes = 4\nexclusive = true\n"
    b"wait_s = 60.5\nmodules = 'a b'\nname = 'x'\nfolder = '/tmp'\nranks_per_node = '8'\n",
    *_seeds(),
]


def check(data: bytes) -> bool:
    """Read the bytes by the reader that the first one names; True if it takes them."""
    kind, content = data[:1], data[1:]
    if kind not in _READERS:
        return False
    ending, read = _READERS[kind]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a.{ending}"
        path.write_bytes(content)
        try:
            read(path)
        except LabkitError as error:
            if len(str(error).replace(folder, "")) > 2500:
                raise AssertionError("an error of unbounded length") from error
            return False
    return True
