"""The work on a declared study: which points are missing, running them, and the study of all."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import itertools
import json
import os
import re
import time
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from labkit import __version__
from labkit.errors import DataError
from labkit.local.costs import find_calibration
from labkit.process.fingerprint import engine_digest, labkit_digest
from labkit.process.imports import program_digests
from labkit.registry import own_files, problems
from labkit.sim.measured import Records
from labkit.study.bundle.writer import environment
from labkit.study.declared.declaration import Declaration
from labkit.study.measure import Found
from labkit.study.points import Point, form_remarks, is_real
from labkit.study.spread import Harvest, cut_short, seeds_change_nothing
from labkit.study.study import Study
from labkit.study.sweep_points import records_of
from labkit.text.files import replace_file, toml_of
from labkit.timing import Repeats

__all__ = ["Content", "DeclaredWork", "Results", "differences"]


class _Writer(Harvest):
    """Writes every point down before the next one is taken."""

    def __init__(self, seed: int, work: DeclaredWork, records: Records | None = None) -> None:
        super().__init__(seed)
        self._work = work
        #: computation that is measured and kept with the points
        self._records, self._written = records, set(records.kept if records is not None else ())

    def keep(self, point: Point, found: Found) -> None:
        """Keep a point's rows, on disk as well."""
        began = time.time()
        super().keep(point, found)
        self._work.require_unchanged(point)
        own = itertools.takewhile(lambda pair: pair[0] == point.number, reversed(self.rows))
        rows = [row for _, row in own][::-1]
        if rows:
            entry = {
                "point": point.text,
                "unix_time_s": began,
                "rows": rows,
                "on": found.on,
                "machine": found.machine,
                "notes": found.notes,
                "counts": self.counts.get(found.on),
                "seeds": found.seeds,
                "collectives": found.collectives,
                "effort": found.effort,
            }
            key = {"place": self._work.places[point.number], "content": self._work.contents[point.number]}
            self._work.results.add(self._work.keys[point.number], key | entry | self._computation())

    def _computation(self) -> dict[str, object]:
        """Return what has been measured since the last point."""
        if self._records is None:
            return {}
        new = {key: one for key, one in self._records.kept.items() if key not in self._written}
        self._written |= set(new)
        return {"computation": new}


# The content of a study's points: digests of everything that their values depend on, by names for people.


class Content:
    """What the points of the current study are made of.

    `records`: The recorded computation that the study replays, if it has some in a file.
    `measured`: The computation that the study has measured itself, which is in that file too.
    """

    def __init__(
        self, declaration: Declaration, records: Records | None = None, measured: Mapping[str, object] = {}
    ) -> None:
        program = declaration.program
        files = program_digests(program) if isinstance(program, Path) else declaration.program_files
        self._common = {
            **files,
            **self._files([declaration.run.get(name) for name in ("mapping", "calibration")]),
            **{str(p): _digest(p.read_bytes()) for of in problems() for p in own_files(of).values()},
            "labkit": f"{__version__} {labkit_digest()}",
            "engine": engine_digest(),
        }
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
        own = self._files([point.on, point.model, point.options.get("coll"), dict(point.parameters)])
        more = {"MPI": _library()} if is_real(point.on) else self._simulated
        return {**self._common, **own, **more}

    def _files(self, values: list[object]) -> dict[str, str]:
        found = {}
        for text in _texts(values):
            for name in _names(text):
                found.update(_file_digests(name))
        return found


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Name what is not the same in two contents."""
    return [name for name in {**new, **old} if old.get(name) != new.get(name)]


def _texts(value: object) -> Iterator[str]:
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


class DeclaredWork:
    """A declared study and what has been measured of it.

    A point's key is its place in the study (parameters and settings) and the content of all that it is made
    of (`labkit.study.declared.work`): values of another content are never taken for its own.

    `jobs`: Processes; default: what the declaration says.
    `planned`: All points.
    `failures`: Points that failed this time.
    """

    def __init__(self, declaration: Declaration, results: Results, jobs: int | None = None) -> None:
        self.declaration, self.results = declaration, results
        self.planned = declaration.planned(jobs)
        settings = {
            name: dataclasses.asdict(value) if isinstance(value, Repeats) else value
            for name, value in {**declaration.run, "args": declaration.args}.items()
            if name not in ("jobs", "timeout_s")
        }
        measured = {
            key: one for entry in results.points.values() for key, one in entry.get("computation", {}).items()
        }
        records = records_of(self.planned.job)
        #: the file of recorded computation, which gets what is measured
        self._grows = None if records is None or records.path is None else os.path.basename(records.path)
        content = Content(declaration, records, measured)
        self.places = {point.number: place_of(point, settings) for point in self.planned.plan}
        self.contents = {point.number: content.of(point) for point in self.planned.plan}
        self.keys = {number: key_of(place, self.contents[number]) for number, place in self.places.items()}
        self.failures: list[dict[str, Any]] = []
        self.remarks: list[str] = []

    @property
    def missing(self) -> list[Point]:
        """The points that nobody has measured yet, in the order in which they will run."""
        known, seeds = self.results.points, self._seeds
        few = cut_short(seeds)
        return [p for p in self.planned.plan if self.keys[p.number] not in known or p.number in few]

    @property
    def _seeds(self) -> dict[int, str]:
        """What the measured points of this study have shown about their seeds, by their numbers."""
        known = self.results.points
        return {n: str(known[key].get("seeds", "")) for n, key in self.keys.items() if key in known}

    @property
    def machines(self) -> dict[str, str]:
        """How the rows call the machines, by what the declaration calls them."""
        points = ((point, self.results.points.get(self.keys[point.number])) for point in self.planned.plan)
        return {point.on: entry["on"] for point, entry in points if entry and isinstance(point.on, str)}

    @property
    def effort(self) -> dict[str, float]:
        """The CPU seconds of all measured points, and the peak memory of a process, in bytes."""
        entries = [self.results.points[key] for key in self.keys.values() if key in self.results.points]
        efforts = [entry.get("effort", {}) for entry in entries]
        return {
            "points": len(entries),
            "cpu_s": round(sum(one.get("cpu_s", 0.0) for one in efforts), 3),
            "peak_bytes": max((one.get("peak_bytes", 0) for one in efforts), default=0),
        }

    @property
    def stale(self) -> int:
        """The number of points in the folder that belong to other content or other values."""
        return len(self.results.current - set(self.keys.values()))

    @property
    def changed(self) -> dict[str, int]:
        """What is not as it was when points that are missing were measured, with their number."""
        last = {entry.get("place"): entry.get("content", {}) for entry in self.results.points.values()}
        found: Counter[str] = Counter()
        for point in self.missing:
            old = last.get(self.places[point.number])
            if old is not None:
                found.update(differences(old, self.contents[point.number]))
        return dict(found)

    def require_unchanged(self, point: Point) -> None:
        """Refuse a point whose files were edited during the run.

        Raises DataError: Naming them.
        """
        was, now = self.contents[point.number], Content(self.declaration).of(point)
        if edited := [name for name in differences(was, now) if name != self._grows]:
            raise DataError(
                f"{', '.join(edited)} changed while the study ran, so {point.text} belongs to neither "
                "version; what was measured before is kept: start again",
                code="changed-file",
            )

    def run(self, progress: bool | None = None) -> None:
        """Run what is missing; points that fail are noted, and tried again next time.

        Raises DataError: Another process works on this study, or there is no room for the results.
        Raises KeyboardInterrupt: Before the first point was done.
        """
        with self.results.writing():
            self.results.set_aside(self.keys.values())
            missing = self.missing
            if not missing:
                return
            harvest = _Writer(self.planned.harvest.seed, self, records_of(self.planned.job))
            harvest.about, harvest.seeds = self.planned.harvest.about, self._seeds
            work = dataclasses.replace(self.planned, plan=missing, harvest=harvest)
            if work.carry_out(progress) and (late := harvest.cut_short(self.planned.plan)):
                every = dataclasses.replace(self.planned.job, is_every=True)
                dataclasses.replace(work, job=every, plan=late).carry_out(progress)
            self.failures = harvest.failures
            self.remarks = [one for one in harvest.remarks if one.startswith("interrupted")]

    def study(self) -> Study:
        """Return all that has been measured of this study.

        Raises DataError: That is nothing.
        """
        entries = [
            self.results.points[self.keys[point.number]]
            for point in sorted(self.planned.plan, key=lambda one: one.number)
            if self.keys[point.number] in self.results.points
        ]
        if not entries:
            first = f": {self.failures[0]['point']}: {self.failures[0]['error']}" if self.failures else ""
            raise DataError(f"{self.declaration.path}: no point has been measured{first}", code="no-data")
        data = pd.DataFrame([row for entry in entries for row in entry["rows"]])
        forms = form_remarks(data, [entry.get("collectives", {}) for entry in entries])
        by = list(dict.fromkeys(entry["by"] for entry in entries))
        environments = {one: self.results.environments.get(one, {}) for one in by}
        notes = {
            "title": self.declaration.title,
            "failures": self.failures,
            "remarks": [*self.remarks, *_each(note for entry in entries for note in entry["notes"]), *forms],
            "machines": {entry["on"]: entry["machine"] for entry in entries},
            "seed": self.planned.harvest.seed,
            "counts": {entry["on"]: entry["counts"] for entry in entries if entry["counts"]},
            "environments": environments,
            "sweep": self._about(entries, environments),
            "program_sha256": self.declaration.program_sha256,
            "content": {name: one for content in self.contents.values() for name, one in content.items()},
        }
        computation = {key: one for entry in entries for key, one in entry.get("computation", {}).items()}
        return Study(data, notes | ({"computation": computation} if computation else {}))

    def _about(self, entries: list[dict[str, Any]], environments: dict[str, Any]) -> dict[str, object]:
        """Return how the points were run, as a sweep notes it; versions are those of all that ran some."""
        about = dict(self.planned.harvest.about)
        for name in ("labkit", "python"):
            versions = [str(one[name]) for one in environments.values() if one.get(name)]
            if versions:
                about[name] = " and ".join(dict.fromkeys(versions))
        return about | {"is_deterministic": seeds_change_nothing(one.get("seeds", "") for one in entries)}

    def save(self, study: Study) -> Path:
        """Save the study in the folder of results; `labkit.load` and ``labkit judge`` read it."""
        return study.save(self.results.folder / "data.study")


def _each(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


# The folder of a study's results: every value of every point, on disk as soon as it is measured.
#
# ``points.jsonl`` has the points of the study as it is now, ``earlier.jsonl`` those that were measured of
# other content (another version of a file) or of other values.


_LOG, _EARLIER, _LOCK = "points.jsonl", "earlier.jsonl", "lock"


class Results:
    """What has been measured so far, a line for each point, only ever added to.

    A line that a kill has cut off is no measurement, and is left out. One process at a time writes.

    `folder`: Made when the first point is written.
    `points`: By key the last line of each point, the earlier ones first.
    `environments`: By their digests the Pythons and computers on which points were measured.
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
            raise DataError(
                f"{str(path)!r} cannot be read: {error.strerror or error}", code="unreadable-file"
            ) from error
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
                    "out, or move the folder away to measure everything again",
                    code="damaged-file",
                ) from error
        return whole_bytes

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other processes from writing meanwhile; the lock goes with this process, however it ends.

        Raises DataError: Another process works on this study, or the folder cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = open(self.folder / _LOCK, "a+")  # noqa: SIM115 - held until the end
        except OSError as error:
            raise DataError(
                f"{str(self.folder)!r} cannot be written: {error.strerror or error}", code="unwritable-file"
            ) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                lock.seek(0)
                who = lock.read().strip()
                raise DataError(
                    f"another process ({who or 'unknown'}) is working on this study: wait for it, or end it; "
                    "what it has measured is kept",
                    code="in-use",
                ) from error
            lock.truncate(0)
            lock.write(f"process {os.getpid()}\n")
            lock.flush()
            self._read()  # what was added before we had the lock
            yield

    def set_aside(self, keys: Collection[str]) -> None:
        """Have points.jsonl hold these points, as far as they are known, and earlier.jsonl all others.

        Raises DataError: They cannot be written; what was there before is as it was.
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
                "before is kept: make room, and start again",
                code="unwritable-file",
            ) from error
        self.current, self._whole_bytes = known, len(own)

    def _lines(self, entries: Sequence[Mapping[str, object]]) -> bytes:
        by = dict.fromkeys(entry.get("by") for entry in entries)
        abouts = [
            {"id": one, "environment": self.environments[one]} for one in by if one in self.environments
        ]
        return _text([*abouts, *entries])

    def add(self, key: str, entry: Mapping[str, Any]) -> None:
        """Write a point, and wait until it is on disk.

        Raises DataError: It cannot be written; what was there before is as it was.
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
                "is kept: make room, and start again",
                code="unwritable-file",
            ) from error
        self._whole_bytes += len(text)
        self.points[key] = json.loads(text.splitlines()[-1])
        self.current.add(key)


def _text(lines: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(json.dumps(one, default=str, ensure_ascii=False) + "\n" for one in lines).encode()


def place_of(point: Point, settings: Mapping[str, object]) -> str:
    """Return what names a point's place in a study: its parameters, and the settings that matter."""
    where = point.on if isinstance(point.on, str) else repr(point.on)
    return _name([point.ranks, where, point.model, point.cells, settings])


def key_of(place: str, content: Mapping[str, str]) -> str:
    """Return what names a point: its place in the study, and the content of all that it is made of."""
    return _name([place, dict(content)])


def _name(things: list[object]) -> str:
    return sha256(json.dumps(things, sort_keys=True, default=str).encode()).hexdigest()[:24]
