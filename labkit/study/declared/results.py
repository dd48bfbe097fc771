"""The folder of a study's results: every value of every point, on disk as soon as it is measured.

``points.jsonl`` has the points of the study as it is now, ``earlier.jsonl`` those that were measured of other
content (another version of a file) or of other values.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from labkit.errors import DataError
from labkit.plain import replace_file
from labkit.study.bundle.writer import environment
from labkit.study.points import Point

__all__ = ["Results", "key_of", "place_of"]

_LOG, _EARLIER, _LOCK = "points.jsonl", "earlier.jsonl", "lock"


class Results:
    """What has been measured so far, a line for each point, only ever added to.

    A line that a kill has cut off is no measurement, and is left out. One process at a time writes.

    Parameters
    ----------
    folder : Path
        Made when the first point is written.

    Attributes
    ----------
    points : dict
        By key the last line of each point, the earlier ones first.
    environments : dict
        By their digests the Pythons and computers on which points were measured.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.points: dict[str, dict[str, Any]] = {}
        self.environments: dict[str, dict[str, Any]] = {}
        #: the keys in points.jsonl
        self.current: set[str] = set()
        self._here: str | None = None
        self._whole_bytes = 0
        self._read()

    def _read(self) -> None:
        self.points.clear()
        self.environments.clear()
        self._read_file(_EARLIER)
        earlier = dict(self.points)
        self.points.clear()
        self._whole_bytes = self._read_file(_LOG)
        self.current = set(self.points)
        own = dict(self.points)
        self.points.clear()
        self.points.update({key: one for key, one in earlier.items() if key not in own} | own)

    def _read_file(self, name: str) -> int:
        """Take in a file's lines; return the bytes of the whole ones."""
        path, whole_bytes = self.folder / name, 0
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise DataError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
        for number, line in enumerate(content.splitlines(keepends=True), 1):
            if not line.endswith(b"\n"):
                break  # a kill came between
            whole_bytes += len(line)
            try:
                entry = json.loads(line)
                if "environment" in entry:
                    self.environments[str(entry["id"])] = dict(entry["environment"])
                else:
                    self.points[str(entry["key"])] = entry
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(
                    f"{str(path)!r}, line {number}: it is damaged ({error}); take the line "
                    "out, or move the folder away to measure everything again"
                ) from error
        return whole_bytes

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other processes from writing meanwhile; the lock goes with this process, however it ends.

        Raises
        ------
        DataError
            Another process works on this study, or the folder cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = open(self.folder / _LOCK, "a+")  # noqa: SIM115 - held until the end
        except OSError as error:
            raise DataError(f"{str(self.folder)!r} cannot be written: {error.strerror or error}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                lock.seek(0)
                who = lock.read().strip()
                raise DataError(
                    f"another process ({who or 'unknown'}) is working on this study: wait for it, or end it; "
                    "what it has measured is kept"
                ) from error
            lock.truncate(0)
            lock.write(f"process {os.getpid()}\n")
            lock.flush()
            self._read()  # what was added before we had the lock
            yield

    def set_aside(self, keys: Collection[str]) -> None:
        """Have points.jsonl hold these points, as far as they are known, and earlier.jsonl all others.

        Raises
        ------
        DataError
            They cannot be written; what was there before is as it was.
        """
        known = {key for key in keys if key in self.points}
        if known == self.current:
            return
        try:
            if others := [one for key, one in self.points.items() if key not in known]:
                replace_file(self.folder / _EARLIER, self._lines(others))
            own = self._lines([one for key, one in self.points.items() if key in known])
            replace_file(self.folder / _LOG, own)
        except OSError as error:
            raise DataError(
                f"{str(self.folder)!r} cannot be written: {error.strerror or error}; what was measured "
                "before is kept: make room, and start again"
            ) from error
        self.current, self._whole_bytes = known, len(own)

    def _lines(self, entries: list[dict[str, Any]]) -> bytes:
        by = dict.fromkeys(entry.get("by") for entry in entries)
        abouts = [
            {"id": one, "environment": self.environments[one]} for one in by if one in self.environments
        ]
        return _text([*abouts, *entries])

    def add(self, key: str, entry: Mapping[str, Any]) -> None:
        """Write a point, and wait until it is on disk.

        Raises
        ------
        DataError
            It cannot be written; what was there before is as it was.
        """
        lines = []
        if self._here is None:
            about = environment()
            self._here = sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()[:12]
            by = {self.points[key].get("by") for key in self.current}
            self.environments[self._here] = about
            if self._here not in by:
                lines.append({"id": self._here, "environment": about})
        line = {"key": key, "by": self._here, **entry}
        lines.append(line)
        text = _text(lines)
        path = self.folder / _LOG
        try:
            with open(path, "r+b" if path.exists() else "w+b") as file:
                file.truncate(self._whole_bytes)
                file.seek(self._whole_bytes)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                os.truncate(path, self._whole_bytes)
            raise DataError(
                f"{str(path)!r} cannot be written: {error.strerror or error}; what was measured before "
                "is kept: make room, and start again"
            ) from error
        self._whole_bytes += len(text)
        self.points[key] = json.loads(text.splitlines()[-1])
        self.current.add(key)


def _text(lines: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(one, default=str, ensure_ascii=False) + "\n" for one in lines).encode()


def place_of(point: Point, settings: Mapping[str, Any]) -> str:
    """Return what names a point's place in a study: its parameters, and the settings that matter."""
    where = point.on if isinstance(point.on, str) else repr(point.on)
    return _name([point.ranks, where, point.model, point.cells, settings])


def key_of(place: str, content: Mapping[str, str]) -> str:
    """Return what names a point: its place in the study, and the content of all that it is made of."""
    return _name([place, dict(content)])


def _name(things: list[Any]) -> str:
    return sha256(json.dumps(things, sort_keys=True, default=str).encode()).hexdigest()[:24]
