"""The machine as a real rank sees it."""

from __future__ import annotations

import time

from labkit.context import Decisions
from labkit.real.cores import available_cores

TYPE_CHECKING = False  # as in typing, which every rank would import for this alone
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from labkit.tally import RealTally

__all__ = ["RankContext"]


class RankContext:
    """The machine of a real rank: a recorder of phases on the host's monotonic clock."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        #: of the repetition that runs
        self.run_seed = 0
        #: name, begin, end, and how many phases were around it
        self.phases: list[tuple[str, float, float, int]] = []
        self._open: list[tuple[str, float]] = []
        #: notes what is charged, in a recorded run
        self.charge: Callable[[float | None, float | None], None] | None = None
        #: whether kernels charge nothing, as their work is measured
        self.is_measured = False
        #: notes the borders of phases, in a recorded run
        self.mark: Callable[[str, bool], None] | None = None
        #: counts what the program counts and holds, in the repetition that is counted
        self.tally: RealTally | None = None
        #: what requests have decided (`labkit.tune`)
        self.decisions = Decisions()
        #: what there is to say of the run
        self.noted: list[str] = []
        #: what collectives have taken: `labkit.selector.Situation` to name
        self.taken: dict[Any, str] = {}

    def begin_phase(self, name: str) -> None:
        """Note the entry into a phase."""
        if self.tally is not None:
            self.tally.enter(self.rank, name)
        self._open.append((name, time.monotonic()))
        if self.mark is not None:
            self.mark(name, True)

    def end_phase(self, name: str) -> None:
        """Note the exit from the innermost open phase of that name."""
        now = time.monotonic()
        if self.tally is not None:
            self.tally.leave(self.rank)
        if self.mark is not None:
            self.mark(name, False)
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index][0] == name:
                self.phases.append((name, self._open.pop(index)[1], now, index))
                return

    def compute(self, seconds: float | None, flops: float | None) -> None:
        """Do nothing: on a real machine the work itself takes the time; a recorded run notes it."""
        if self.charge is not None:
            self.charge(seconds, flops)

    @property
    def cores(self) -> int:
        """The cores of this host that the rank may use."""
        return available_cores()

    def count(self, name: str, amount: float) -> None:
        """Count for the program, where somebody asked."""
        if self.tally is not None:
            self.tally.add(self.rank, name, amount)

    def note(self, text: str) -> None:
        """Say something about the run, once."""
        if text not in self.noted:
            self.noted.append(text)

    def begin_counting(self, has_counts: bool) -> None:
        """Count from now on, or not."""
        if has_counts:
            from labkit.tally import RealTally

            self.tally = RealTally()
            self.tally.begin(self.rank)

    def end_counting(self) -> dict[str, Any]:
        """Return what was counted as part of a repetition's times."""
        if self.tally is None:
            return {}
        tally, self.tally = self.tally, None
        return {"tally": tally.end()}

    def end_deciding(self) -> dict[str, Any]:
        """Return what was decided (rank 0 tells it) and noted, as part of a repetition's times."""
        rows = self.decisions.rows() if self.rank == 0 else []
        taken = {"taken": dict(self.taken)} if self.taken and self.rank == 0 else {}
        noted = {"noted": self.noted} if self.noted else {}
        return taken | ({"decided": rows} if rows else {}) | noted

    def wtime(self) -> float:
        """Return the host's monotonic clock, in seconds."""
        return time.monotonic()

    def reset(self) -> None:
        """Forget everything before the next repetition."""
        self.phases, self._open, self.noted = [], [], []
        self.decisions = Decisions()
