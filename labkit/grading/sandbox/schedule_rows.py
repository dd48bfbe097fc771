"""A student's schedule as rows of numbers: made in the submission's process, read and believed nowhere else.

A row is one operation of one rank: ``rank, kind, peer, label, section (5 numbers), source (5 numbers),
source first``, in the order in which the generator yields them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import ScheduleError
from labkit.schedule import Column, Group, Kind, Schedule, Step, Temporary, build

__all__ = ["COLUMNS", "rows_of", "schedule_from"]

COLUMNS = 15
MOST_ROWS = 100_000
_MOST_NUMBER = 1 << 20

Rows = NDArray[np.int64]


def rows_of(generator: Callable[[Any], Any], arguments: Sequence[Any]) -> Rows:
    """Return the rows of a schedule."""
    name, size, root, commutative, parts, temporaries, ranks = arguments
    schedule = build(
        name, generator, size, root=root, commutative=commutative, parts=parts, temporaries=temporaries
    )
    rows: list[tuple[int, ...]] = []
    for step in schedule.steps(ranks):
        for rank, op in step.entries():
            row = (rank, int(op.kind), op.peer, op.label, *op.section, *op.source, int(op.is_source_first))
            rows.append(row)
        if len(rows) > MOST_ROWS:
            raise ScheduleError(
                f"the schedule has more than {MOST_ROWS} operations: does it end?", code="too-large"
            )
    return np.array(rows, np.int64).reshape(-1, COLUMNS)


def schedule_from(
    rows: object,
    name: str,
    size: int,
    *,
    root: int = 0,
    commutative: bool = True,
    parts: int = 1,
    temporaries: tuple[str, ...] = (),
) -> Schedule:
    """Build a schedule from rows that a submission handed over."""
    if not isinstance(rows, np.ndarray) or rows.dtype != np.int64 or rows.ndim != 2:
        raise ScheduleError("what was handed over is no schedule", code="wrong-type")
    if rows.shape[1] != COLUMNS:
        raise ScheduleError("what was handed over is no schedule", code="wrong-type")
    if len(rows) > min(MOST_ROWS, 500 * size + 1000):
        raise ScheduleError(f"{len(rows)} operations for {size} ranks: far more than any schedule needs")
    table = rows.tolist()
    made = build(
        name,
        lambda group: _steps(group, table),
        size,
        root=root,
        commutative=commutative,
        parts=parts,
        temporaries=[Temporary(t, _like(name)) for t in temporaries],
    )
    for row in table:
        _require_row(row, size, made)
    return made


def _like(name: str) -> str:
    return "data" if name == "bcast" else "recv"


def _require_row(row: list[int], size: int, schedule: Schedule) -> None:
    """Refuse numbers that would cost the reader memory or time: a section's blocks are listed one by one."""
    rank, kind = row[0], row[1]
    if not 0 <= rank < size or kind not in set(Kind):
        raise ScheduleError(
            f"an operation of rank {rank}, kind {kind}: there is no such thing", code="malformed-schedule"
        )
    most = max(schedule.n_blocks(rank), default=0)
    for buffer, first, length, run, stride in (row[4:9], row[9:14]):
        is_buffer = -1 <= buffer < len(schedule.buffers)
        if not is_buffer or abs(first) > _MOST_NUMBER or not -1 <= length <= most:
            raise ScheduleError(f"rank {rank}: an operation on blocks that do not exist")
        if not 0 <= run <= max(most, 1) or not 1 <= stride <= max(most, 1):
            raise ScheduleError(f"rank {rank}: an operation on runs of blocks that do not exist")
    if max(abs(row[2]), abs(row[3])) > _MOST_NUMBER or row[14] not in (0, 1):
        raise ScheduleError(f"rank {rank}: an operation with numbers that mean nothing")


def _steps(group: Group, table: list[list[int]]) -> Iterator[Step]:
    """Yield the operations of the ranks asked for."""
    wanted = set(group.ranks.tolist())
    for row in table:
        if row[0] in wanted:
            section, source = tuple(row[4:9]), tuple(row[9:14])
            yield Step(
                (
                    Column(
                        Kind(row[1]), np.array([row[0]]), row[2], section, source, row[3], row[14]  # type: ignore[arg-type]
                    ),
                )
            )  # fmt: skip
