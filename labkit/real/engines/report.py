"""The error of a failed run on engines: which rank, where and why, out of all reports."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from labkit.errors import LabkitError, MachineError, RankError
from labkit.process.stacks import Frame, parse_stack
from labkit.real.engines.target import Place, Target
from labkit.real.engines.watch import Reports
from labkit.real.failure import (
    Where,
    first_error,
    grouped,
    printed_too_much,
    stopped,
    too_late,
    with_output,
)
from labkit.real.mpi.endings import Ending, read_ending
from labkit.units import ranks_text

__all__ = ["failure"]

#: how much of a launcher's output is read: its last words stand at the end
_TAIL_BYTES = 50_000
#: how long the launcher may take to write down which process ended
_WORDS_S = 6.0


def failure(
    target: Target, places: list[Place], reports: Reports, timeout_s: float | None, output_limit_bytes: int
) -> LabkitError | None:
    """Find out why a run failed.

    Parameters
    ----------
    target : Target
        The cluster.
    places : list of Place
        The ranks.
    reports : Reports
        How the run ended.
    timeout_s : float or None
        Its time limit.
    output_limit_bytes : int
        What all ranks together may print.

    Returns
    -------
    LabkitError or None
        The error to raise, with what the ranks had printed as its `output`; None when every rank is done.
    """
    records = reports.records
    if len(records) == len(places) and all(one["kind"] == "done" for one in records.values()):
        return None
    failed = [one for one in records.values() if one["kind"] not in ("done", "interrupted")]
    error = first_error(failed)
    if error is None and reports.lost:
        error = _from_lost(target, places, reports)
    elif error is None and any(one["reason"] == "output" for one in records.values()):
        error = printed_too_much("a rank", output_limit_bytes)
    elif error is None and _is_deadlocked(reports):
        error = _deadlock(places, reports)
    elif error is None and reports.is_late:
        error = too_late(timeout_s, _places(places, reports))
        if not reports.sees_waits:
            error.add_note(
                "If all of them wait for each other, this is a deadlock: it is recognised, with its cycle, "
                "only on engines that labkit has started on this host."
            )
    elif error is None:
        interrupted = [rank for rank, one in sorted(records.items()) if one["kind"] == "interrupted"]
        error = MachineError(
            f"{ranks_text(interrupted)} got an interrupt from outside this run, and it was ended:\n"
            f"{grouped(_places(places, reports))}"
        )
    if reports.stuck:
        error.add_note(
            f"{ranks_text(reports.stuck)} could not be interrupted (blocked in a call of C code?); until the "
            f"engines are restarted no run can use them: {target.restart_hint}"
        )
    return with_output(error, reports.printed(places))


def _is_deadlocked(reports: Reports) -> bool:
    """Whether nobody could go on, and nobody who is to blame has gone on meanwhile."""
    blame, records = reports.blame, reports.records
    return blame is not None and not any(
        rank in records and records[rank]["kind"] == "done" for rank in blame.ranks
    )


def _deadlock(places: list[Place], reports: Reports) -> LabkitError:
    """Say who waits for whom, and where in the program."""
    assert reports.blame is not None
    stacks = {rank: () if isinstance(where, str) else where for rank, where in _places(places, reports)}
    return reports.blame.error(stacks, len(places))


def _places(places: list[Place], reports: Reports) -> Iterator[tuple[int, Where]]:
    """Yield where each rank was at the moment of its interrupt."""
    for place in places:
        record = reports.records.get(place.rank)
        where: Where
        if record is None:
            where = tuple(parse_stack(reports.stacks.get(place.rank, "")))
            where = where or "could not be interrupted, and did not say where it is"
        elif record["has_finished"]:
            where = "had finished"
        else:
            where = tuple(Frame(*one) for one in record["place"]) or "was outside the program"
        if place.rank in reports.stopped:
            where = stopped(() if isinstance(where, str) else where)
        yield place.rank, where


def _from_lost(target: Target, places: list[Place], reports: Reports) -> LabkitError:
    """Name the rank whose engine died, from what its launcher saw."""
    gone = [place for place in places if place.engine not in target.client.ids]
    lost = sorted(reports.lost)
    if not gone:
        error = reports.lost[lost[0]]
        text = " ".join(str(error).split())[:500]
        return MachineError(f"the engine of rank {lost[0]} failed: {type(error).__name__}: {text}")
    ending = _ending(target, {int(place.about["pid"]): place.rank for place in places})
    advice = f"the engines of its MPI world are lost: {target.restart_hint}"
    if ending is None and len(gone) == 1:
        text = f"vanished: its engine {gone[0].engine} died"
        return RankError(gone[0].rank, text, f"rank {gone[0].rank} {text}; {advice}")
    if ending is None:
        ranks = ranks_text(sorted(place.rank for place in gone))
        return MachineError(
            f"the engines of {ranks} died, and which of them died first is not known; {target.restart_hint}"
        )
    if ending.rank >= len(places):
        return MachineError(f"rank {ending.rank}, which took no part in the run, {ending.text()}; {advice}")
    said = f"rank {ending.rank} {ending.text()}; {advice}"
    return RankError(ending.rank, ending.text(), said, abort_code=ending.abort)


def _ending(target: Target, ranks_by_pid: Mapping[int, int]) -> Ending | None:
    until = time.monotonic() + _WORDS_S
    while True:
        for path in target.launcher_files():
            try:
                with Path(path).open("rb") as file:
                    file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                    text = file.read().decode("utf-8", "replace")
            except OSError:
                continue
            if ending := read_ending(text, ranks_by_pid):
                return ending
        if time.monotonic() > until or not target.launcher_files():
            return None
        time.sleep(0.1)
