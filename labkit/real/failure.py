"""Errors of failed runs that are the same on every real machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from labkit.errors import MORE_TIME, LabkitError, MachineError, RankError, RunInterrupted, TimeLimitError
from labkit.process.stacks import Frame, places_text

__all__ = [
    "Where",
    "first_error",
    "grouped",
    "interrupted",
    "printed_too_much",
    "stopped",
    "too_late",
    "with_output",
]

#: where a rank was: its frames, outermost first, or what there is to say instead
Where = tuple[Frame, ...] | str


def first_error(records: Iterable[Mapping[str, Any]], machine: str = "") -> LabkitError | None:
    """Return the error that counts of those that ranks have noted, None without any."""
    record = min(records, key=lambda one: (one["kind"] != "machine", one["time"]), default=None)
    if record is None:
        return None
    rank, text = int(record["rank"]), str(record["text"])
    if record["kind"] == "machine":
        return MachineError(f"{text}{machine}")
    said = {"abort": f"rank {rank} {text}", "result": text}
    return RankError(rank, text, said.get(record["kind"]), record.get("abort_code"))


def too_late(timeout_s: float | None, places: Iterable[tuple[int, Where]]) -> TimeLimitError:
    """Return the error of a run that has reached its time limit."""
    head = f"the run did not end within {timeout_s:g} s and was ended; {MORE_TIME}. Where each rank was:"
    return TimeLimitError(f"{head}\n{grouped(places)}")


def grouped(places: Iterable[tuple[int, Where]]) -> str:
    """Describe where ranks were; those at the same place share an entry."""
    found: dict[Where, list[int]] = {}
    for rank, place in places:
        found.setdefault(place, []).append(rank)
    return places_text(found)


def stopped(frames: tuple[Frame, ...]) -> str:
    """Describe a rank that a signal has stopped."""
    text = "was stopped by a signal (SIGSTOP or SIGTSTP), and not continued"
    return "\n".join([f"{text}; it was at", *(frame.text() for frame in frames)]) if frames else text


def printed_too_much(who: str, limit_bytes: int) -> MachineError:
    """Return the error of ranks that were ended because of what they printed."""
    return MachineError(
        f"{who} printed more than {limit_bytes} bytes and {'were' if who == 'the ranks' else 'was'} ended; "
        "print less, or raise output_limit_bytes"
    )


def with_output(error: LabkitError, printed: Iterable[bytes]) -> LabkitError:
    """Return the error with what each rank had printed."""
    error.attach_output(_texts(printed))
    return error


def interrupted(printed: Iterable[bytes]) -> RunInterrupted:
    """Return what an interrupted run raises, with what each rank had printed."""
    return RunInterrupted(_texts(printed))


def _texts(printed: Iterable[bytes]) -> list[str]:
    return [text.decode("utf-8", "replace") for text in printed]
