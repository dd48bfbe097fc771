"""The folder of a batch job: everything about it in readable files, each written whole or not at all.

::

    sample_sort-20261121-184500-4f2a9c/
      job.json         what was asked for: labkit, Python, options, a list of points with their keys
      script.sh        the batch script as submitted; submitting it again continues what is unfinished
      submitted.json   Slurm's number for the job
      started.json     by the job: nodes, MPI, when
      refused          by the job: one sentence on why it could not begin
      slurm.out        what the batch script printed
      points/0/        a program at one number of ranks with one set of arguments
        job            the pickled program
        ranks.zip      what each rank printed, returned and timed
        launcher       what the MPI launcher printed
        status.json    done or failed, and how
        collected      when somebody had the result
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from labkit.errors import MachineError

__all__ = ["FORMAT", "JobFolder", "find_jobs", "now_text", "write_atomic"]

#: version of the layout
FORMAT = 1


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees all of it or nothing."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")
    try:
        with open(part, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())  # a full disk or quota is noticed here at the latest
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def now_text() -> str:
    """Return the time as a text that sorts."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


class JobFolder:
    """One job's folder.

    `about`: The content of ``job.json``.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        self.about = about
        self._id: str | None = None  # kept: somebody may remove the folder meanwhile

    @classmethod
    def create(
        cls, base: str, about: Mapping[str, object], points: list[tuple[dict[str, object], bytes]]
    ) -> JobFolder:
        """Write a new job down.

        `base`: Where job folders are made.
        `about`: What goes into ``job.json``, without the points' own.
        `points`: The header and the pickled program of each point.
        Raises MachineError: The folder cannot be written.
        """
        token = secrets.token_hex(3)
        title = re.sub(r"[^A-Za-z0-9_]+", "-", str(about["program"])).strip("-")[:40] or "program"
        path = Path(base) / f"{title}-{time.strftime('%Y%m%d-%H%M%S')}-{token}"
        full = {**about, "format": FORMAT, "token": token, "created": now_text()}
        try:
            path.mkdir(mode=0o700, parents=True)
            for number, (header, payload) in enumerate(points):
                place = path / "points" / str(number)
                place.mkdir(parents=True)
                write_atomic(place / "job", pickle.dumps(header) + payload)
            write_atomic(path / "job.json", json.dumps(full, indent=1) + "\n")  # last: it makes it a job
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)
            raise MachineError(
                f"the job cannot be written to {base!r}: {error}; give another folder= on a file system that "
                "the compute nodes share and that has room",
                code="unwritable-file",
            ) from error
        return cls(path, full)

    @classmethod
    def open(cls, path: Path) -> JobFolder | None:
        """Read a job's folder; None unless it is one and belongs to the user: pickles can run code."""
        try:
            about = path.stat()
            if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            content = json.loads((path / "job.json").read_text("utf-8"))
        except (OSError, ValueError):
            return None
        is_ours = isinstance(content, dict) and content.get("format") == FORMAT
        return cls(path, content) if is_ours else None

    @property
    def points(self) -> list[dict[str, Any]]:
        """What is known of each point: key, ranks, text, repeats."""
        return list(self.about["points"])

    @property
    def job_id(self) -> str | None:
        """Slurm's number for the job: as sbatch said, or as the job itself did."""
        for name in ("submitted.json", "started.json"):
            if self._id is None and self.read(name).get("id"):
                self._id = str(self.read(name)["id"])
        return self._id

    def point(self, number: int) -> Path:
        """Return the folder of a point."""
        return self.path / "points" / str(number)

    def read(self, name: str) -> dict[str, Any]:
        """Read one of the JSON files; empty when it is not there (yet)."""
        try:
            content = json.loads((self.path / name).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def write(self, name: str, content: object) -> None:
        """Write one of the files: JSON, or plain text."""
        text = content if isinstance(content, str) else json.dumps(content, indent=1) + "\n"
        write_atomic(self.path / name, text)

    def status(self, number: int) -> dict[str, Any]:
        """Return how a point ended; empty while it has not."""
        return self.read(f"points/{number}/status.json")

    def is_collected(self, number: int) -> bool:
        """Whether somebody had a point's result."""
        return (self.point(number) / "collected").exists()

    def mark_collected(self, number: int) -> None:
        """Note that somebody has a point's result now."""
        if not self.is_collected(number):
            with contextlib.suppress(OSError):  # the folder is gone, or the disk full: no reason to fail now
                self.write(f"points/{number}/collected", now_text() + "\n")

    def refused(self) -> str:
        """Return the sentence on why the job could not begin; empty when it could."""
        try:
            return " ".join((self.path / "refused").read_text("utf-8", "replace").split())
        except OSError:
            return ""

    def printed(self, limit: int = 2000) -> str:
        """Return the end of what the batch script printed."""
        return self.printed_bytes()[-limit:].decode("utf-8", "replace").strip()

    def printed_bytes(self) -> bytes:
        """Return all that the batch script printed."""
        try:
            return (self.path / "slurm.out").read_bytes()
        except OSError:
            return b""

    def remove(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.path, ignore_errors=True)


def find_jobs(base: str) -> Iterator[JobFolder]:
    """Go through the jobs in a folder, newest first."""
    try:
        names = sorted(os.listdir(base), key=lambda name: name[-22:], reverse=True)
    except OSError:
        return
    for name in names:
        job = JobFolder.open(Path(base) / name)
        if job is not None:
            yield job
