"""A schedule as the kernels' program: what the simulator runs without waking Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit import _kernels
from labkit.schedule.schedule import Schedule

__all__ = ["program_of"]


def program_of(schedule: Schedule, max_kept_entries: int = 1 << 18, steps: Any = None) -> Any:
    """Return the schedule as the kernels' program; steps are generated when a rank gets there.

    Up to `max_kept_entries` operations stay in memory for the next call of the same program. `steps` has
    size and steps where they are not the schedule's own.
    """
    counts = []
    for buffer, per_rank in zip(schedule.buffers, schedule.n_blocks_of(range(schedule.size)), strict=True):
        is_same = buffer.name not in schedule.problem.at_root and len(np.unique(per_rank)) == 1
        counts.append([int(per_rank[0])] if is_same else per_rank.tolist())
    names = [buffer.name for buffer in schedule.buffers]
    return _kernels.make_program(
        schedule if steps is None else steps,
        f"{schedule.problem.name}/{schedule.name}",
        schedule.problem.layout,
        names,
        [names.index(buffer.like) for buffer in schedule.buffers],
        [buffer.is_temporary for buffer in schedule.buffers],
        counts,
        max_kept_entries,
        schedule.parts if schedule.problem.layout == "uniform" else 1,
        [buffer.holds for buffer in schedule.buffers],
        schedule.root if "send" in schedule.problem.at_root else -1,
    )
