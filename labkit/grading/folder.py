"""A folder of submissions, graded one process each: none takes another down, and what is done stays done."""

from __future__ import annotations

import contextlib
import csv
import gc
import hashlib
import hmac
import importlib
import io
import json
import multiprocessing
import os
import secrets
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from labkit import __version__
from labkit.errors import CacheWarning, DataError, LabkitError
from labkit.grading.assignment import Assignment
from labkit.grading.bench import use
from labkit.grading.page import Grade
from labkit.grading.result import CheckResult, clean_name, file_stem
from labkit.grading.seeds import student_seed
from labkit.grading.submission import (
    read_submission,
    require_function,
    source_of_cells,
    submitted_text,
)
from labkit.process.fingerprint import engine_digest, fingerprint, labkit_digest
from labkit.process.folders import private_folder
from labkit.process.tree import worked_s
from labkit.process.watchdog import die_with_parent
from labkit.text.files import replace_file

__all__ = [
    "Found",
    "find_submissions",
    "grade_cells",
    "grade_file",
    "grade_folder",
    "grade_source",
    "keep",
    "kept_folder",
    "kept_grade",
    "source_of",
    "unreadable",
    "write_csv",
    "write_feedback",
]


#: what grading needs: loaded once, before the processes that grade are forked
_NEEDED = (
    "labkit.MPI",
    "labkit.launch.run",
    "labkit.scaling",
    "labkit.sim.machine",
    "labkit.sim.runner",
    "labkit.sim.calls.stand_ins",
    "labkit.trace.trace",
    "labkit.trace.waiting",
    "pandas",
)
#: beyond an assignment's own budget, before the process that grades it is ended
_GRACE_S = 120.0


_LINK = "it is a link to another file: hand in the file itself"
_NOTHING = "no .py or .ipynb file lies in the folder: hand in one"
_NO_FILE = "it is a pipe, a socket or a device: hand in a file"
_ENDINGS = (".py", ".ipynb")
#: a student's file, or what is wrong with what the student has handed in
Found = Path | DataError


def find_submissions(folder: str | os.PathLike[str]) -> dict[str, Found]:
    """Return the submissions of a folder by student: .py and .ipynb files, or a folder with one for each."""
    root = Path(folder)
    if root.is_file():
        return {clean_name(root.stem): root}
    if not root.is_dir():
        raise DataError(
            f"the folder of submissions {clean_name(str(root))!r} does not exist", code="missing-file"
        )
    files: dict[str, list[Path]] = {}
    broken: dict[str, DataError] = {}
    try:
        paths = sorted(root.iterdir())
    except OSError as error:
        raise DataError(
            f"the folder {clean_name(str(root))!r} cannot be read: {error.strerror}", code="unreadable-file"
        ) from error
    for path in paths:
        if path.name.startswith((".", "_")):
            continue
        student = clean_name(path.name if path.is_dir() else path.stem)
        if path.is_symlink():  # to whose work?
            broken[student] = DataError(_LINK, code="wrong-kind-of-file")
            continue
        try:
            own = sorted(path.iterdir()) if path.is_dir() else [path]
            own = [file for file in own if _is_submission(file)]
            if any(file.is_symlink() for file in own):
                broken[student] = DataError(_LINK, code="wrong-kind-of-file")
                continue
        except OSError as error:
            broken[student] = DataError(
                f"the folder cannot be read: {error.strerror}", code="unreadable-file"
            )
            continue
        if own:
            files.setdefault(student, []).extend(own)
        elif path.is_dir():
            broken[student] = DataError(_NOTHING, code="missing-file")
        elif path.suffix.lower() in _ENDINGS:
            broken[student] = DataError(_NO_FILE, code="missing-file")
    if not files and not broken:
        raise DataError(f"no .py or .ipynb file in {clean_name(str(root))!r}", code="missing-file")
    for student, own in files.items():
        if len(own) > 1:
            names = ", ".join(clean_name(str(file.relative_to(root))) for file in own[:8])
            broken[student] = DataError(
                f"more than one submission of {student}: {names}; leave one", code="duplicate-name"
            )
    found: dict[str, Found] = {student: own[0] for student, own in files.items()}
    found.update(broken)
    return dict(sorted(found.items()))


def _is_submission(file: Path) -> bool:
    """Whether a file can be a submission; ._sort.py is a Mac's metadata of sort.py."""
    is_hidden = file.name.startswith(".")
    return not is_hidden and file.suffix.lower() in _ENDINGS and file.is_file()


def grade_file(
    path: str | os.PathLike[str],
    assignment: Assignment,
    student: str | None = None,
    secret: str = "",
    accepts_weak: bool = False,
) -> Grade:
    """Grade one file in the sandbox; one that cannot be read fails every check."""
    who = clean_name(Path(path).stem if student is None else student)
    try:
        source = read_submission(path, assignment.functions)
    except DataError as error:
        return unreadable(who, assignment, str(error), secret)
    return grade_source(source, assignment, who, secret, accepts_weak)


def grade_cells(sources: list[str], assignment: Assignment, student: str, secret: str = "") -> Grade:
    """Grade the code cells of a notebook in the sandbox; cells that are no Python fail every check."""
    try:
        source = source_of_cells(sources, assignment.functions)
    except DataError as error:
        return unreadable(student, assignment, str(error), secret)
    return grade_source(source, assignment, student, secret)


def grade_source(
    source: str, assignment: Assignment, student: str, secret: str = "", accepts_weak: bool = False
) -> Grade:
    """Grade a source in the sandbox; one that does not define the function fails every check."""
    try:
        require_function(source, assignment.function)
    except DataError as error:
        return unreadable(student, assignment, str(error), secret)
    seed = student_seed(student, assignment.name, secret)
    return assignment.grade(source, student=student, seed=seed, accepts_weak=accepts_weak)


def unreadable(student: str, assignment: Assignment, why: str, secret: str) -> Grade:
    """Return the grade of what cannot be graded at all: no points, and a sentence at the first check."""
    rows = [
        CheckResult(c.name, c.title, 0.0, c.points, "not judged, either" if n else why, is_bonus=c.is_bonus)
        for n, c in enumerate(assignment.checks)
    ]
    return Grade(student, assignment.name, rows, seed=student_seed(student, assignment.name, secret))


@dataclass
class _Worker:
    student: str
    process: Any
    pipe: Connection
    budget_s: float
    deadline_s: float
    worked_s: float = 0.0
    was_ended: bool = False

    def is_late(self) -> bool:
        """Whether it has used up its budget, or does not work at all; having had to wait does not count."""
        if time.monotonic() < self.deadline_s:
            return False
        before, self.worked_s = self.worked_s, worked_s(self.process.pid)
        self.deadline_s = time.monotonic() + _GRACE_S
        return not before + 1.0 < self.worked_s < self.budget_s


def grade_folder(
    submissions: Mapping[str, Found],
    assignment: Assignment,
    *,
    jobs: int = 1,
    secret: str = "",
    accepts_weak: bool = False,
    kept: Path | None = None,
    progress: Callable[[Grade, int, int], None] | None = None,
) -> list[Grade]:
    """Grade submissions, several at a time, each in a separate process."""
    done: dict[str, Grade] = {}
    lost: list[OSError] = []

    def finish(student: str, grade: Grade, is_new: bool) -> None:
        done[student] = grade
        path = submissions[student]
        if kept is not None and is_new and grade.status == "graded" and isinstance(path, Path):
            try:
                keep(kept, grade, path, assignment, secret)
            except OSError as error:
                lost.append(error)
                _warn_once(lost, kept)
        if progress is not None:
            progress(grade, len(done), len(submissions))

    waiting = []
    for student, path in submissions.items():
        if not isinstance(path, Path):
            finish(student, _ungraded(student, assignment, str(path)), is_new=False)
            continue
        earlier = None if kept is None else kept_grade(kept, student, source_of(path), assignment, secret)
        if earlier is not None:
            finish(student, earlier, is_new=False)
        else:
            waiting.append(student)
    running: list[_Worker] = []
    if waiting:
        for name in _NEEDED:
            importlib.import_module(name)
    with private_folder() as folder:
        turns = str(folder / "turns")
        try:
            while waiting or running:
                while waiting and len(running) < max(jobs, 1):
                    student = waiting.pop(0)
                    path = submissions[student]
                    assert isinstance(path, Path)
                    running.append(_start(student, path, assignment, secret, accepts_weak, turns))
                for worker in list(_finished(running)):
                    running.remove(worker)
                    finish(worker.student, _collect(worker, assignment), is_new=True)
        finally:
            for worker in running:
                worker.process.kill()
                worker.process.join()
    return [done[student] for student in submissions]


def _warn_once(lost: Sequence[OSError], kept: Path) -> None:
    if len(lost) == 1:
        why = lost[0].strerror or lost[0]
        text = f"grades cannot be kept in {str(kept)!r} ({why}): a second call grades them again"
        warnings.warn(text, CacheWarning, stacklevel=4)


def _start(
    student: str, path: Path, assignment: Assignment, secret: str, accepts_weak: bool, turns: str
) -> _Worker:
    context = multiprocessing.get_context(
        "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    )
    ours, theirs = context.Pipe(duplex=False)
    process: Any = context.Process(
        target=_work,
        args=(theirs, os.getpid(), turns, student, path, assignment, secret, accepts_weak),
        daemon=False,
    )
    process.start()
    theirs.close()
    budget_s = assignment.budget_s + _GRACE_S
    return _Worker(student, process, ours, budget_s, time.monotonic() + budget_s)


def _work(
    pipe: Connection,
    parent: int,
    turns: str,
    student: str,
    path: Path,
    assignment: Assignment,
    secret: str,
    accepts_weak: bool,
) -> None:
    """Grade one submission and hand its grade back as JSON."""
    die_with_parent(parent)
    gc.freeze()  # what all have in common is not looked through in each
    use(Path(turns))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that waits for all
    try:
        answer = grade_file(path, assignment, student, secret, accepts_weak).to_dict()
    except LabkitError as error:
        answer = {"ungraded": str(error)}
    except Exception as error:
        answer = {"ungraded": f"the grader failed: {type(error).__name__}: {error}"}
    pipe.send_bytes(json.dumps(answer).encode())
    pipe.close()


def _finished(running: list[_Worker]) -> Iterator[_Worker]:
    ready = wait([worker.pipe for worker in running], timeout=0.5)
    for worker in running:
        if worker.pipe in ready:
            yield worker
        elif worker.is_late():
            worker.was_ended = True
            worker.process.kill()
            yield worker


def _collect(worker: _Worker, assignment: Assignment) -> Grade:
    try:
        if worker.was_ended:
            raise DataError("grading did not end in time", code="time-limit")
        data: dict[str, object] = json.loads(worker.pipe.recv_bytes())
        if "ungraded" in data:
            raise DataError(str(data["ungraded"]))
        return Grade.from_dict(data)
    except (EOFError, OSError):
        return _ungraded(worker.student, assignment, "the process that graded it ended: grade it again alone")
    except DataError as error:
        return _ungraded(worker.student, assignment, str(error))
    finally:
        worker.pipe.close()
        worker.process.join()


def _ungraded(student: str, assignment: Assignment, message: str) -> Grade:
    return Grade(student, assignment.name, status="ungraded", message=message)


def write_csv(grades: Sequence[Grade], path: str | os.PathLike[str]) -> None:
    """Write a line for each student: points, and the points of each check."""
    names = list(dict.fromkeys(result.name for grade in grades for result in grade.results))
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["student", "assignment", "status", "points", "max_points", *names])
    for grade in grades:
        reached = {result.name: result.points for result in grade.results}
        row: list[object] = [_cell(grade.student), grade.assignment, grade.status]
        # who could not be graded has no points, not 0
        row += [grade.points, grade.max_points] if grade.status == "graded" else ["", ""]
        writer.writerow([*row, *(reached.get(name, "") for name in names)])
    replace_file(path, file.getvalue())


def _cell(text: str) -> str:
    """Let no spreadsheet take a name for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def write_feedback(grades: Sequence[Grade], folder: str | os.PathLike[str]) -> None:
    """Write a page for each student."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for grade in grades:
        replace_file(target / f"{file_stem(grade.student)}.html", grade.html())


# Grades that are kept, so that a second call grades only what has changed: with the teacher, and signed.


_KEY_BYTES = 32


def kept_folder(submissions: str | os.PathLike[str]) -> Path:
    """Return the folder for the grades of a folder of submissions: one of the teacher's, not next to them."""
    place = hashlib.sha256(os.fsencode(os.path.realpath(submissions))).hexdigest()[:16]
    return _state() / "grades" / place


def _state() -> Path:
    named = os.environ.get("XDG_STATE_HOME")
    if named and os.path.isabs(named):
        return Path(named) / "labkit"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "labkit"
    return Path.home() / ".local" / "state" / "labkit"


def _key() -> bytes:
    """Return the teacher's key; made at the first use, readable for nobody else."""
    path = _state() / "grades.key"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # A draft with all of its bytes first: who comes at the same time never reads half a key.
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    if not path.exists():
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        os.unlink(draft)
    found = path.read_bytes()
    if len(found) != _KEY_BYTES:
        raise OSError(f"{str(path)!r} is no key: remove it, and everything is graded again")
    return found


def _signature(text: str) -> str:
    return hmac.new(_key(), text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def _fingerprint(source: str, assignment: Assignment, secret: str) -> str:
    secret_known = hashlib.sha256(secret.encode()).hexdigest()
    versions = f"{__version__} {labkit_digest()} {engine_digest()}"
    return fingerprint(source, assignment, assignment.digest, secret_known, versions)


def keep(folder: Path, grade: Grade, path: Path, assignment: Assignment, secret: str) -> None:
    """Keep the grade of a file."""
    source = source_of(path)
    if source is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    # The student is signed, too: nobody's grade is another's.
    what = {"fingerprint": _fingerprint(source, assignment, secret), "grade": grade.to_dict()}
    text = json.dumps(what)
    signed = json.dumps({"signature": _signature(text), "signed": text})
    replace_file(folder / f"{file_stem(grade.student)}.json", signed)


def source_of(path: Path) -> str | None:
    """Return what was handed in, None where it cannot be read."""
    try:
        return submitted_text(path)
    except DataError:
        return None


def kept_grade(
    folder: Path, student: str, source: str | None, assignment: Assignment, secret: str = ""
) -> Grade | None:
    """Return the grade that was kept for just this source, or None.

    The source is what was handed in, as `labkit.grading.submission.submitted_text` gives it.
    """
    try:
        file: dict[str, Any] = json.loads((folder / f"{file_stem(student)}.json").read_text(encoding="utf-8"))
        if source is None or not hmac.compare_digest(str(file["signature"]), _signature(str(file["signed"]))):
            return None
        data = json.loads(file["signed"])
        if data["fingerprint"] != _fingerprint(source, assignment, secret):
            return None
        grade = Grade.from_dict(data["grade"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return grade if grade.student == student else None
