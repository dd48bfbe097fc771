"""Grades that are kept, so that a second call grades only what has changed: with the teacher, and signed.

They lie in the teacher's own folder for state, never beside what students hand in, and each is signed by a
key that lies there, too: a file that somebody else has put in their place is no grade.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

from labkit import __version__
from labkit.errors import DataError
from labkit.grading.assignment import Assignment
from labkit.grading.clean import file_stem
from labkit.grading.grade import Grade
from labkit.grading.submission import submitted_text
from labkit.plain import replace_file
from labkit.process.fingerprint import engine_digest, fingerprint, labkit_digest

__all__ = ["keep", "kept_folder", "kept_grade", "source_of"]

_KEY_BYTES = 32


def kept_folder(submissions: str | os.PathLike[str]) -> Path:
    """Return the folder for the grades of a folder of submissions: one of the teacher's, not beside them."""
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
    """Return the grade that was kept for just this source, None if there is none.

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
