"""The content of a study's points: digests of everything that their values depend on, by names for people."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from labkit import __version__
from labkit.local.costs import find_calibration
from labkit.plain import toml_of
from labkit.process.imports import program_digests
from labkit.process.versions import engine_digest, labkit_digest
from labkit.sim.computation import Records
from labkit.study.bundle.provenance import environment
from labkit.study.declared.declaration import Declaration
from labkit.study.points import Point, is_real

__all__ = ["Content", "differences"]


class Content:
    """What the points of a study are made of, as it is now.

    Parameters
    ----------
    declaration : Declaration
    records : Records, optional
        The recorded computation that the study replays, if it has some in a file.
    measured : mapping
        The computation that the study has measured itself, which is in that file too.
    """

    def __init__(
        self, declaration: Declaration, records: Records | None = None, measured: Mapping[str, Any] = {}
    ) -> None:
        self._declaration = declaration
        program = declaration.program
        files = program_digests(program) if isinstance(program, Path) else declaration.program_files
        self._common = {
            **files, **self._files([declaration.run.get(name) for name in ("mapping", "calibration")]),
            "labkit": f"{__version__} {labkit_digest()}", "engine": engine_digest(),
        }  # fmt: skip
        self._simulated: dict[str, str] = {}
        if "calibration" not in declaration.run:
            self._simulated["calibration"] = find_calibration(None).digest
        if records is not None and records.path is not None:
            given = {key: one for key, one in records.kept.items() if measured.get(key) != one}
            self._simulated[os.path.basename(records.path)] = _digest(
                json.dumps(given, sort_keys=True).encode()
            )

    def of(self, point: Point) -> dict[str, str]:
        """Return the digests of what a point is made of."""
        own = self._files([point.on, point.model, point.options.get("coll")])
        more = {"MPI": _library()} if is_real(point.on) else self._simulated
        return {**self._common, **own, **more}

    def _files(self, values: list[Any]) -> dict[str, str]:
        found = {}
        for text in _texts(values):
            for name in _names(text):
                found.update(_file_digests(name))
        return found


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Name what is not the same in two contents."""
    return [name for name in {**new, **old} if old.get(name) != new.get(name)]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str | os.PathLike):
        yield os.fspath(value)
    elif isinstance(value, Mapping):
        yield from (text for one in value.values() for text in _texts(one))
    elif isinstance(value, list | tuple):
        yield from (text for one in value for text in _texts(one))


def _names(text: str) -> list[str]:
    """Return what may be files in a text such as ``star:4,model=my.toml``."""
    parts = [text, *text.split(","), *re.split("[,=]", text)]
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def _file_digests(name: str) -> dict[str, str]:
    """Return the digest of a file, and of those that it names; nothing for another text."""
    with contextlib.suppress(OSError, ValueError):
        path = Path(os.path.expanduser(name))
        if path.is_dir() and path.suffix == ".prf":  # a folder of profiles
            return {str(one): _digest(one.read_bytes()) for one in sorted(path.glob("*.prf"))}
        if not path.is_file():
            return {}
        content = path.read_bytes()
        found = {name: _digest(content)}
        if path.suffix == ".toml":
            with contextlib.suppress(tomllib.TOMLDecodeError, UnicodeDecodeError):
                for text in _texts(toml_of(content.decode("utf-8-sig"))):
                    for inner in _names(text):
                        if inner != name:
                            found.update(_file_digests(inner))
        return found
    return {}


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


@functools.cache
def _library() -> str:
    return json.dumps(environment()["mpi"], sort_keys=True)
