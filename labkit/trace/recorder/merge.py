"""The merge of the ranks' ledgers into one trace: communicators numbered, what is missing said."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.errors import DataError, MachineError
from labkit.trace.formats.text import open_out
from labkit.trace.formats.ti_writer import Numbering, check_target, write_actions
from labkit.trace.recorder.recorder import write_notes
from labkit.trace.recorder.session import SALVAGE

__all__ = ["Notes", "Recording", "ask_ranks", "recording_header", "recording_of"]

#: by rank its lines, and what they mean to others
Notes = Mapping[int, tuple[bytes, dict[str, Any]]]

_ALLOWED = 'allowed: "measured", "measured:FACTOR", "charged", "none"'
_SALVAGE_S = 1.0


@dataclass
class Recording:
    """A real run that is to be written down as a time-independent trace.

    `target`: See `labkit.trace.formats.ti_writer.check_target`.
    `computation`: ``"measured"``: the CPU time of each rank between its calls; ``"charged"``: what the
        program charges (`labkit.compute`, node-local kernels); ``"none"``.
    `scale`: Factor of measured computation.
    """

    target: Path
    computation: str = "measured"
    scale: float = 1.0
    remarks: list[str] = field(default_factory=list)

    # -- what comes without files ---------------------------------------------------------------------------

    def collect_notes(self, notes: Notes, ranks: int) -> list[str]:
        """Do as `collect` with what ranks without a folder in common have sent."""
        with tempfile.TemporaryDirectory() as folder:
            _write(folder, notes)
            return self.collect(folder, ranks)

    def salvage_notes(self, notes: Notes, ranks: int, reason: str) -> str | None:
        """Do as `salvage` with what ranks without a folder in common have sent."""
        with tempfile.TemporaryDirectory() as folder:
            _write(folder, notes)
            return self.salvage(folder, ranks, reason)

    # -- a run that ended well ------------------------------------------------------------------------------

    def collect(self, directory: str, ranks: int) -> list[str]:
        """Write the trace; what there is to say of it.

        Raises MachineError: A rank wrote nothing: its program never imported mpi4py.
        Raises DataError: The target cannot be written.
        """
        abouts = [_about(directory, rank) for rank in range(ranks)]
        silent = [rank for rank, about in enumerate(abouts) if about is None]
        if silent:
            raise MachineError(
                f"rank {silent[0]} recorded no calls: its program never imported mpi4py",
                code="not-recorded",
            )
        found = [about for about in abouts if about is not None]
        numbering = Numbering(lambda rank, number: found[rank]["communicators"][str(number)])
        path = write_actions(
            self.target, ranks, lambda rank: numbering.renumbered(rank, _lines(directory, rank))
        )
        return [
            f"recorded as a time-independent trace in {path}; {self._about_computation()}",
            *_remarks(found),
        ]

    def _about_computation(self) -> str:
        if self.computation == "none":
            return "without computation"
        if self.computation == "charged":
            return "its computation is what the program charges"
        scale = "" if self.scale == 1 else f" times {self.scale:g}"
        return (
            "its computation is the CPU time of each rank's thread between its calls, a second as 1e9 flops"
            f"{scale}: not the same twice"
        )

    # -- a run that failed ----------------------------------------------------------------------------------

    def ask(self, directory: str, ranks: int) -> None:
        """Ask living ranks for what they have noted, and wait a little."""
        ask_ranks(directory, ranks)

    def salvage(self, directory: str, ranks: int, reason: str) -> str | None:
        """Write what there is of the trace of a run that failed, marked as incomplete.

        `reason`: Why the run failed: its first line is written into the trace.
        Returns: A sentence with the place; None where no rank wrote anything.
        """
        abouts = [_about(directory, rank) for rank in range(ranks)]
        have = [rank for rank, about in enumerate(abouts) if about is not None]
        if not have:
            return None
        path = self.target.with_name(self.target.name + ".incomplete")
        numbering = Numbering(lambda rank, number: abouts[rank]["communicators"][str(number)])  # type: ignore[index]
        first = " ".join(reason.split("\n")[0].split())
        lacking = sorted(set(range(ranks)) - set(have))
        lost = f"; nothing of ranks {', '.join(map(str, lacking))}" if lacking else ""
        try:
            with open_out(path) as file:
                file.write(f"#+ incomplete {first}{lost}\n".encode())
                for rank in have:
                    file.write(numbering.renumbered(rank, _unended(_lines(directory, rank))))
        except OSError as error:
            return f"what was recorded until then cannot be written to {path}: {error.strerror}"
        return f"what was recorded until then is in {path}, marked as incomplete{lost}"


def recording_header(
    recording: Recording | None,
    has_times: bool,
    leave_out: Sequence[str] = (),
    is_summed: bool = False,
    counters: Sequence[str] = (),
) -> dict[str, object]:
    """Return what the ranks of a recorded run must know: as what is to be recorded, lines, times, or both."""
    if recording is not None and leave_out:
        raise MachineError(
            "leave_out belongs to trace=True: what trace_ti writes could not be replayed without all calls",
            code="conflicting-options",
        )
    computation, scale = ("charged", 1.0) if recording is None else (recording.computation, recording.scale)
    return {
        "computation": computation,
        "scale": scale,
        "has_lines": recording is not None,
        "has_times": has_times,
        "leave_out": list(leave_out),
        "is_summed": is_summed,
        "counters": list(counters),
    }


def ask_ranks(directory: str, ranks: int, wait_s: float = _SALVAGE_S) -> None:
    """Ask living ranks for what they have noted, and wait a little."""
    (Path(directory) / SALVAGE).touch()
    until = time.monotonic() + wait_s
    while time.monotonic() < until and any(_about(directory, rank) is None for rank in range(ranks)):
        time.sleep(0.02)


def _write(folder: str, notes: Notes) -> None:
    for rank, (lines, record) in notes.items():
        path = os.path.join(folder, f"rank-{rank}.ti")
        write_notes(path, f"{path}.json", lines, record)


def recording_of(target: Any, compute: str | None) -> Recording:
    """Read the options of a recorded real run."""
    path = check_target(target)
    word, colon, factor = ("measured" if compute is None else str(compute)).partition(":")
    if word not in ("measured", "charged", "none") or (colon and word != "measured"):
        raise MachineError(
            f"compute={compute!r} is not known for a recorded real run; {_ALLOWED}", code="unknown-name"
        )
    try:
        scale = float(factor) if colon else 1.0
    except ValueError:
        raise MachineError(
            f"compute={compute!r}: {factor!r} is not a number; {_ALLOWED}", code="malformed-value"
        ) from None
    if not 0 < scale < float("inf"):
        raise MachineError(
            f"measured computation needs a finite factor > 0, got {scale!r}", code="out-of-range"
        )
    return Recording(path, word, scale)


def _about(directory: str, rank: int) -> dict[str, Any] | None:
    try:
        text = (Path(directory) / f"rank-{rank}.ti.json").read_text("utf-8")
    except OSError:
        return None
    found: dict[str, object] = json.loads(text)
    return found


def _lines(directory: str, rank: int) -> bytes:
    try:
        return (Path(directory) / f"rank-{rank}.ti").read_bytes()
    except OSError as error:
        raise DataError(
            f"the notes of rank {rank} cannot be read: {error.strerror}", code="unreadable-file"
        ) from None


def _unended(lines: bytes) -> bytes:
    """Take the end away that a rank did not reach."""
    kept, _, last = lines.rstrip(b"\n").rpartition(b"\n")
    return kept + b"\n" if last.endswith(b" finalize") else lines


def _remarks(abouts: list[dict[str, Any]]) -> list[str]:
    """Return what several ranks report, each sentence once."""
    said: dict[str, list[int]] = {}
    for rank, about in enumerate(abouts):
        for text in about["remarks"]:
            said.setdefault(text, []).append(rank)
    return [f"trace: {text} ({_who(ranks)})" for text, ranks in said.items()]


def _who(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:6])) + (", ..." if len(ranks) > 6 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
