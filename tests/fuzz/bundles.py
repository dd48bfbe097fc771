"""Fuzzing target: bundles and saved studies, damaged in every way; nothing of them is run."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import labkit as lk
from labkit.errors import LabkitError
from labkit.study.bundle.verify_bundle import verify

__all__ = ["SEEDS", "check"]


def _program(comm: Any) -> None:
    comm.barrier()


def _seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        study = lk.sweep(_program, ranks=[2, 4], on="star")
        study.save(Path(folder) / "a.study")
        study.bundle(Path(folder) / "a.bundle")
        return [(Path(folder) / name).read_bytes() for name in ("a.study", "a.bundle")]


SEEDS = _seeds()


def check(data: bytes) -> None:
    """Read the bytes as a bundle; and, as the content of one of its files, where they are no archive."""
    archives = [data]
    if data[:2] != b"PK":
        name = ("study.json", "data.csv", "bundle.json", "manifest.json")[len(data) % 4]
        archives.append(_with(SEEDS[len(data) % len(SEEDS)], name, data))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.bundle"
        for archive in archives:
            path.write_bytes(archive)
            for read in (lambda: verify(path, run=False), lambda: lk.load(path)):
                try:
                    read()
                except LabkitError as error:
                    said = str(error).replace(folder, "")
                    if len(said) > 3000:
                        raise AssertionError("an error of unbounded length") from error


def _with(archive: bytes, name: str, content: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            if info.filename != name:
                new.writestr(info, old.read(info))
        new.writestr(name, content)
    return made.getvalue()
