"""Verifies a bundle: its structure, every hash, the versions; then runs the simulated part again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import numbers as numbers_abc
import os
import platform
import site
import stat
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from labkit.checks import check_limit
from labkit.errors import DataError, MachineError
from labkit.process.child import ChildProcess, ending_text, module_words, telling_words
from labkit.process.confinement.program import WALLS
from labkit.process.fingerprint import labkit_digest
from labkit.process.folders import private_folder
from labkit.study.bundle.recipe_file import ANSWER, REQUEST, numbers
from labkit.study.bundle.writer import FORMAT, MANIFEST, VERSION, identity
from labkit.study.store import check_table, study_of
from labkit.text import html as markup
from labkit.text.files import DAMAGED, require_file
from labkit.text.rank_output import clean

__all__ = [
    "MOST_ANSWER_BYTES",
    "BundleVerification",
    "CellDifference",
    "compare_rows",
    "open_bundle",
    "verify",
]

_SHOWN = 10

#: what a program may use when nobody says otherwise, and what is asked for at least
MEMORY_BYTES, LEAST_BYTES = 4 << 30, 64 << 20


@dataclass
class BundleVerification:
    """What verifying a bundle found; true in a condition unless something differs or could not be run again.

    `name`: The file.
    `identity`: SHA-256 of its manifest.
    `files`: Files whose hashes agree.
    `rows`: Rows of the study.
    `compared`: Rows that were computed again.
    `differences`: Rows that came out otherwise.
    `only_present`: Rows of real machines and of metrics that depend on the host: nothing can compute them
        again.
    `was_run`: Whether the bundle's program was run.
    `undecided`: Why rows that should be computed again were not; empty when they were.
    `walls`: What confined the program while it ran.
    `missing`: What this system does not keep it from.
    `notes`: What differs here from where the bundle was made.
    """

    name: str
    identity: str
    files: int
    rows: int
    compared: int = 0
    differences: list[CellDifference] = field(default_factory=list)
    only_present: int = 0
    was_run: bool = False
    undecided: str = ""
    walls: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """``same``, ``differs``, ``undecided``, or ``whole`` when nothing was run again."""
        if self.differences:
            return "differs"
        if self.undecided:
            return "undecided"
        return "same" if self.compared else "whole"

    def __bool__(self) -> bool:
        """Whether nothing speaks against the bundle."""
        return self.outcome in ("same", "whole")

    def lines(self) -> list[str]:
        """Return what was found, a sentence a line."""
        found = [f"{self.files} files are whole: every SHA-256 agrees", f"identity {self.identity}"]
        if self.compared:
            same = self.compared - len({one.row for one in self.differences})
            found.append(f"{same} of {self.compared} rows computed again are the same to the last bit")
        if self.only_present:
            found.append(
                f"{self.only_present} rows were measured on a real machine or depend on a host: they are "
                "there, and cannot be computed again"
            )
        if self.undecided:
            found.append(f"undecided: {self.undecided}")
        elif not self.was_run:
            found.append("nothing was run again")
        if self.walls:
            found.append(f"its program ran with {', '.join(self.walls)}")
        if self.missing:
            found.append(f"not to be had on this system: {', '.join(self.missing)}")
        found += [str(one) for one in self.differences[:_SHOWN]]
        if (more := len(self.differences) - _SHOWN) > 0:
            found.append(f"and {more} more rows that differ")
        return [clean(line) for line in found + [f"note: {text}" for text in self.notes]]

    def __repr__(self) -> str:
        return "\n".join([f"{self.name}: {_HEADLINES[self.outcome]}", *(f"  {one}" for one in self.lines())])

    def _repr_html_(self) -> str:
        body = "".join(f"<li>{escape(line)}</li>" for line in self.lines())
        title = f"{escape(os.path.basename(self.name))}: {_HEADLINES[self.outcome]}"
        return markup.titled_block(title, f"<ul>{body}</ul>")

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        kept = {name: value for name, value in vars(self).items() if name not in ("name", "differences")}
        differences = [vars(one) for one in self.differences]
        return {"outcome": self.outcome, **kept, "differing": len(differences), "differences": differences}


_HEADLINES = {
    "same": "verified, the simulated part comes out the same",
    "whole": "whole, not run again",
    "differs": "DIFFERS when it is run again",
    "undecided": "whole, but not run again as it should be",
}

# Starts the process that runs a bundle's program again, waits for it within a limit, and ends it.

_POLL_S = 0.1

#: of a program's answer; what is beyond is not read
MOST_ANSWER_BYTES = 64 << 20

#: what a child needs of the environment; the rest may hold secrets
_KEPT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT")


@dataclass
class Answers:
    """What came back: rows or an error for each repetition of a point; what held and ended the process."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    fatal: str = ""
    is_timed_out: bool = False
    walls: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


# Opens a bundle that may be damaged or hostile: nothing is unpacked, and no more is read than is stated.
#
# What is refused: what is no zip; names that leave the folder, are absolute, or occur twice; links;
# encrypted
# or exotically packed files; more files or bytes than any study has; files that the manifest does not
# list, or
# lists and that are not there; another hash; a newer format.

MOST_FILES = 10_000

MOST_BYTES = 512 * 2**20

_NEEDED = ("data.csv", "environment.json", "study.json")

_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Opened:
    """A bundle whose hashes all agree: its name, its manifest with that one's SHA-256, its other files."""

    name: str
    identity: str
    manifest: dict[str, Any]
    files: dict[str, bytes]

    def document(self, name: str) -> Any:
        """Return a file's JSON.

        Raises DataError: There is no such file, or it is no JSON.
        """
        return _json(self.files.get(name, b""), f"{self.name!r}: {name}")


def open_bundle(path: str | os.PathLike[str]) -> Opened:
    """Read a bundle, and check its structure and every hash."""
    name = os.fspath(path)
    if not os.path.exists(path):
        raise DataError(f"there is no file {name!r}", code="missing-file")
    if os.path.isdir(path):
        raise DataError(
            f"{name!r} is a folder; give the zip that study.bundle wrote", code="wrong-kind-of-file"
        )
    require_file(path, is_whole=False)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _checked_entries(archive, name)
            if MANIFEST not in entries:
                kind = "a saved study" if "study.json" in entries else "a zip file"
                raise DataError(
                    f"{name!r} is {kind}, but no bundle: it has no {MANIFEST}", code="malformed-file"
                )
            content = _read(archive, entries[MANIFEST], name)
            manifest = _checked_manifest(content, name)
            files = {one: _read(archive, entry, name) for one, entry in entries.items() if one != MANIFEST}
    except DAMAGED as error:
        reason = str(error) or type(error).__name__
        raise DataError(
            f"{name!r} cannot be read as a bundle, it may be cut off or damaged: {reason}",
            code="damaged-file",
        ) from error
    _check_files(files, manifest["files"], name)
    return Opened(name, identity(content), manifest, files)


def _checked_entries(archive: zipfile.ZipFile, name: str) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MOST_FILES:
        raise DataError(
            f"{name!r} is refused: {len(infos)} files, at most {MOST_FILES} are allowed", code="too-large"
        )
    total = sum(info.file_size for info in infos)
    if total > MOST_BYTES:
        raise DataError(
            f"{name!r} is refused: unpacked it would have {total:,} B, over {MOST_BYTES:,} B",
            code="too-large",
        )
    entries: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        if (why := _wrong(info, entries)) is not None:
            raise DataError(f"{name!r} is refused: the file {info.filename!r} {why}", code="unsafe-archive")
        entries[info.filename] = info
    return entries


def _wrong(info: zipfile.ZipInfo, known: Mapping[str, object]) -> str | None:
    """Return as text what is wrong with an entry of a zip, if anything is."""
    text = info.orig_filename
    parts = PurePosixPath(text).parts
    mode = info.external_attr >> 16
    if not text or text.startswith("/") or ".." in parts or "\\" in text or ":" in text or "\0" in text:
        return "would be unpacked outside its folder"
    if info.is_dir() or str(PurePosixPath(text)) != text:
        return "is not written as study.bundle writes files"
    if text in known:
        return "occurs twice"
    if stat.S_ISLNK(mode) or (mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
        return "is a link or a device"
    if info.flag_bits & 0x1:
        return "is encrypted"
    if info.compress_type not in _PACKINGS:
        return "is packed in a way that bundles do not use"
    return None


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> bytes:
    """Read an entry, and no byte more than its head announces: a head may lie."""
    with archive.open(info) as stream:
        content = stream.read(info.file_size + 1)
    if len(content) != info.file_size:
        raise DataError(
            f"{name!r} is refused: {info.filename!r} has another length than listed", code="damaged-file"
        )
    return content


def _checked_manifest(content: bytes, name: str) -> dict[str, Any]:
    manifest = _json(content, f"{name!r}: {MANIFEST}")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(
            f"{name!r} is no labkit bundle: its {MANIFEST} has another format", code="unsupported-version"
        )
    version = manifest.get("version")
    if type(version) is not int or version != VERSION:
        newer = ": install a newer one" if type(version) is int and version > VERSION else ""
        raise DataError(
            f"{name!r} has version {version!r} of the format; this labkit reads {VERSION}{newer}",
            code="unsupported-version",
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(
        isinstance(one, dict) and isinstance(one.get("sha256"), str) for one in files.values()
    ):
        raise DataError(f"{name!r}: its {MANIFEST} lists no files with their SHA-256", code="damaged-file")
    return manifest


def _check_files(files: Mapping[str, bytes], listed: Mapping[str, Any], name: str) -> None:
    missing = sorted({*listed, *_NEEDED} - files.keys())
    if missing:
        raise DataError(
            f"{name!r} is not whole: {_names(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            code="damaged-file",
        )
    foreign = sorted(files.keys() - listed.keys())
    if foreign:
        raise DataError(
            f"{name!r} holds what its manifest does not list: {_names(foreign)}", code="damaged-file"
        )
    changed = [
        one for one in sorted(files) if hashlib.sha256(files[one]).hexdigest() != listed[one]["sha256"]
    ]
    if changed:
        has = "has" if len(changed) == 1 else "have"
        raise DataError(
            f"{name!r} was changed after it was written: {_names(changed)} {has} another SHA-256 than the "
            "manifest says",
            code="damaged-file",
        )


def _names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _json(content: bytes, what: str) -> object:
    check_table(content, what)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{what} is no JSON: {error}", code="malformed-file") from error


def run_again(
    bundle: Opened,
    request: list[dict[str, Any]],
    timeout_s: float,
    memory_bytes: int,
    progress: Callable[[int, int], None] | None = None,
) -> Answers:
    """Run points of a bundle again in a separate confined process, which executes the bundle's code.

    The request names points and their repetitions: ``{"point": 3, "repetitions": [0, 1]}``. The time is that
    of all of them; the memory is of each process, beyond what Python and NumPy take.
    """
    wanted = sum(len(one["repetitions"]) for one in request)
    with private_folder() as folder:
        for path in bundle.files:
            if path.startswith("program/") or path in ("recipe.json", "machines.json"):
                target = folder / path  # the names were checked when the bundle was opened
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(bundle.files[path])
        (folder / REQUEST).write_text(json.dumps(request), encoding="utf-8")
        (folder / "home").mkdir()

        def look() -> None:
            if progress is not None and (folder / ANSWER).exists():
                progress(max(_content(folder / ANSWER).count(b"\n") - 1, 0), wanted)

        is_timed_out, code, told = _execute(folder, timeout_s, memory_bytes, look)
        answers = Answers(is_timed_out=is_timed_out)
        for line in _lines(folder / ANSWER):
            if "walls" in line and not answers.walls:  # the first one: the bundle's code comes later
                walls = line["walls"] if isinstance(line["walls"], dict) else {}
                answers.walls = [clean(str(wall)) for wall in walls.values()]
                answers.missing = [WALLS[name] for name in WALLS if name not in walls]
            elif "fatal" in line:
                answers.fatal = clean(str(line["fatal"]))
            elif isinstance(line.get("point"), int) and isinstance(line.get("repetition"), int):
                answers.runs.append(line)
        if not is_timed_out and not answers.fatal and len(answers.runs) < wanted:
            answers.fatal = f"its process {ending_text(code)}{f': {told}' if told else ''}"
        return answers


def _execute(
    folder: Path, timeout_s: float, memory_bytes: int, look: Callable[[], None]
) -> tuple[bool, int | None, str]:
    """Run the child to its end or to the limit: whether it was the limit, its code, its last output."""
    home = str(folder / "home")
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # Packages of the user's own stay where they are, though the home is another.
    environment |= {"HOME": home, "TMPDIR": home, "PYTHONUSERBASE": site.getuserbase()}
    words = module_words("labkit.study.bundle.child", folder, memory_bytes, os.getpid())
    deadline = time.monotonic() + timeout_s
    with (folder / "output").open("w+b") as output:
        with ChildProcess(words, environment=environment, cwd=home, stdout=output, stderr=output) as child:
            while not child.wait(_POLL_S) and time.monotonic() < deadline:
                look()
            is_timed_out = child.code is None
            look()
        return is_timed_out, child.code, telling_words(output)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in _content(path).decode("utf-8", "replace").splitlines():
        with contextlib.suppress(ValueError, RecursionError):  # the last one may be cut off
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def _content(path: Path) -> bytes:
    """Return what the program has written, trusting none of it: neither that it is a file, nor its size."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with open(os.open(path, flags), "rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(MOST_ANSWER_BYTES) if is_file else b""
    except OSError:
        return b""


def verify(
    path: str | os.PathLike[str],
    *,
    run: bool = True,
    timeout_s: float = 600.0,
    memory_bytes: int = MEMORY_BYTES,
    progress: Callable[[int, int], None] | None = None,
) -> BundleVerification:
    """Verify a bundle that `Study.bundle` wrote.

    Parameters
    ----------
    path : path
        The bundle.
    run : bool
        Run the simulated part again. **That executes the program in the bundle**, in a separate process
        with an empty home. Where the system permits, it can write nowhere else and has no network
        (`BundleVerification.walls` lists what held); but it can read what you can read: pass False for a
        bundle whose author you do not trust.
    timeout_s : float
        Limit of host time for all runs together, in seconds.
    memory_bytes : int
        Limit of memory of the process (and of each one that it starts), beyond what Python itself takes.
    progress : callable, optional
        Called with the number of runs done and wanted.

    Returns
    -------
    Verification

    Raises
    ------
    DataError
        It is damaged, changed, hostile, no bundle, or of a newer format.
    MachineError
        A limit is none.
    """
    check_limit(timeout_s)
    memory: object = memory_bytes  # whatever was given
    is_number = isinstance(memory, numbers_abc.Integral) and not isinstance(memory, bool)
    if not is_number or not LEAST_BYTES <= memory_bytes < 1 << 50:
        raise MachineError(
            f"memory_bytes is a whole number from {LEAST_BYTES} (64 MiB) on, got {memory_bytes!r}",
            code="wrong-type",
        )
    bundle = open_bundle(path)
    data, _ = study_of(bundle.files, bundle.name)
    found = BundleVerification(
        bundle.name, bundle.identity, len(bundle.files), len(data), notes=_notes(bundle)
    )
    if "recipe.json" not in bundle.files:
        found.notes += [str(text) for text in bundle.manifest.get("remarks", [])]
        return found
    plan = _plan(bundle, data, found)
    if not run or not plan:
        return found
    if (why := _unrunnable(bundle)) is not None:
        found.undecided = why
        return found
    request = [{"point": index, "repetitions": sorted(wanted)} for index, wanted in plan.items()]
    answers = run_again(bundle, request, timeout_s, memory_bytes, progress)
    found.was_run, found.walls, found.missing = True, answers.walls, answers.missing
    _judge(found, data, plan, answers, (timeout_s, memory_bytes))
    return found


Plan = dict[int, dict[int, list[int]]]


def _plan(bundle: Opened, data: pd.DataFrame, found: BundleVerification) -> Plan:
    """Return, for each point and repetition, the rows to compare; count the others."""
    recipe = bundle.document("recipe.json")
    try:
        host = set(recipe["host_metrics"])
        plan: Plan = {}
        seen: set[int] = set()
        for index, point in enumerate(recipe["points"]):
            rows = numbers(point["rows"], len(data))
            if not seen.isdisjoint(rows):
                raise ValueError("a row belongs to two points")
            seen |= set(rows)
            for row in rows:
                if "real" in point or not point["deterministic"] or data["metric"].iloc[row] in host:
                    found.only_present += 1
                else:
                    plan.setdefault(index, {}).setdefault(int(data["repetition"].iloc[row]), []).append(row)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{bundle.name!r}: its recipe.json is not what study.bundle writes ({error})",
            code="malformed-file",
        ) from error
    if len(seen) < len(data):
        found.undecided = f"the recipe does not say where {len(data) - len(seen)} rows come from"
    return plan


def _judge(
    found: BundleVerification, data: pd.DataFrame, plan: Plan, answers: Answers, limits: tuple[float, int]
) -> None:
    """Compare what came back with what the bundle holds."""
    left = {(point, k): rows for point, runs in plan.items() for k, rows in runs.items()}
    starved = 0
    for answer in answers.runs:
        rows = left.pop((int(answer["point"]), int(answer["repetition"])), [])
        if answer.get("memory") is True:  # it says nothing about the rows
            starved += len(rows)
            continue
        found.compared += len(rows)
        if "error" in answer:
            reason = f"the run failed: {answer['error']}"
            for row in rows:
                what = f"ranks={data['ranks'].iloc[row]}" if "ranks" in data else "a run"
                found.differences.append(CellDifference(row, what, "value", None, None, reason))
        else:
            found.differences += compare_rows(data, rows, answer.get("rows", []))
    missing = sum(map(len, left.values()))
    if answers.is_timed_out:
        found.undecided = f"the limit of {limits[0]:g} s ended the runs with {missing} rows to go; allow more"
    elif starved:
        found.undecided = (
            f"{starved} rows need more than the limit of {limits[1] / (1 << 30):g} GiB of memory; allow more "
            "(memory_bytes, --memory GIB)"
        )
    elif missing:
        found.undecided = f"{missing} rows could not be computed again: {answers.fatal or 'no answer came'}"


def _unrunnable(bundle: Opened) -> str | None:
    """Explain why this Python cannot run the program, if it cannot."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        needed = sorted(_pickled_for(bundle.document("recipe.json")) - {here})
    except RecursionError:
        raise DataError(f"{bundle.name!r}: its recipe.json is nested too deeply", code="too-large") from None
    if not needed:
        return None
    return (
        f"part of the program travels as a pickle of Python {needed[0]}, and this is {here}: run "
        f"labkit verify with Python {needed[0]}"
    )


def _pickled_for(form: object) -> set[str]:
    """Return the versions of Python that the pickles in a recipe need."""
    if isinstance(form, list):
        return set().union(*(_pickled_for(part) for part in form))
    if not isinstance(form, dict):
        return set()
    pickle = form.get("$pickle")
    own = {str(pickle["python"])} if isinstance(pickle, dict) and pickle.get("python") else set()
    return own.union(*(_pickled_for(part) for part in form.values()))


def _notes(bundle: Opened) -> list[str]:
    """Describe how this computer differs from the one where the bundle was made, where that may matter."""
    from labkit import __version__

    then = bundle.document("environment.json")
    if not isinstance(then, dict):
        raise DataError(
            f"{bundle.name!r}: its environment.json is not what study.bundle writes", code="malformed-file"
        )
    notes = []
    if then.get("labkit") != __version__:
        notes.append(f"made with labkit {then.get('labkit')}, this is {__version__}")
    elif then.get("labkit_sources_sha256") != labkit_digest():
        notes.append(f"made with another labkit {__version__}: its sources differ from those here")
    if then.get("python") != platform.python_version():
        notes.append(f"made with Python {then.get('python')}, this is {platform.python_version()}")
    return notes


@dataclass(frozen=True)
class CellDifference:
    """A cell that is not what it is when it is computed again.

    `row`: Of the study's table, from 0 on.
    `what`: Which measurement it is.
    `column`: Its column.
    `stored`, `again`: What the bundle holds; what came now: None where nothing came.
    `reason`: Why nothing came.
    """

    row: int
    what: str
    column: str
    stored: Any
    again: Any
    reason: str = ""

    def __str__(self) -> str:
        stored, again = (repr(v) if isinstance(v, str) else str(v) for v in (self.stored, self.again))
        found = f"{self.column} is {stored} in the bundle, {again} when run again"
        return f"row {self.row} ({self.what}): {self.reason or found}"


def compare_rows(
    data: pd.DataFrame, positions: Sequence[int], again: Iterable[Mapping[str, object]]
) -> list[CellDifference]:
    """Compare the rows of one run, by their positions in the bundle's table, with those of its repetition."""
    computed: dict[tuple[str, str], list[Mapping[str, object]]] = {}
    for row in again:
        computed.setdefault((str(row.get("metric")), str(row.get("phase"))), []).append(row)
    found = []
    for position in positions:
        stored = {str(column): value for column, value in data.iloc[position].to_dict().items()}
        metric, phase = _text(stored["metric"]), _text(stored["phase"])
        what = f"{metric}{f' of {phase}' if phase else ''}, ranks={stored.get('ranks')}, on {stored['on']}"
        if not computed.get((metric, phase)):
            reason = "the run gives no such measurement any more"
            found.append(CellDifference(position, what, "metric", metric, None, reason))
            continue
        other = computed[metric, phase].pop(0)
        for column, value in stored.items():
            if not _is_same(value, now := other.get(column)):
                found.append(CellDifference(position, what, column, _plain(value), _plain(now)))
                break
    return found


def _is_same(stored: Any, again: Any) -> bool:
    """Whether two cells are the same: numbers to the last bit, everything else as the table writes it."""
    if isinstance(stored, str) or isinstance(again, str):
        return _text(stored) == _text(again)
    if again is None:
        return stored is None or (isinstance(stored, float) and math.isnan(stored))
    if isinstance(stored, float) or isinstance(again, float):
        return _bits(float(stored)) == _bits(float(again))
    return bool(stored == again)


def _bits(number: float) -> bytes:
    return b"nan" if math.isnan(number) else struct.pack("<d", number)


def _text(value: object) -> str:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def _plain(value: object) -> Any:
    return value.item() if hasattr(value, "item") else value
