"""Off-line tuning on real MPI: the library's own algorithms, measured, and whether their rules are a gain.

For each number of ranks and each algorithm of the library the program below is started once, with the
library's switch for that algorithm; it measures all sizes, each until the interval of its median is narrow.
The rule file of the tuned tree is then given to the library and measured against what the library chooses by
itself: faster or slower where the two intervals are apart, else undecided.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from labkit.errors import DataError, MachineError
from labkit.launch.run import run
from labkit.schedule import PROBLEMS
from labkit.selector import Situation
from labkit.selector.libraries import LIBRARIES, library_names
from labkit.study.sweep_points import progress_bar
from labkit.timing import Repeats, measure

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["RealMachine", "gain"]

COLUMNS = ["operation", "ranks", "bytes", "algorithm", "time_s", "low_s", "high_s"]
#: operations that can be called with a number of bytes alone, and their buffers: 0 and 1 have a rank's bytes,
#: 2 and 3 those of all ranks
_BUFFERS = {
    "allgather": (0, 2),
    "allreduce": (0, 1),
    "alltoall": (2, 3),
    "barrier": (),
    "bcast": (0,),
    "exscan": (0, 1),
    "gather": (0, 2),
    "reduce": (0, 1),
    "reduce_scatter_block": (2, 0),
    "scan": (0, 1),
    "scatter": (2, 0),
}


class RealMachine:
    """A real machine that a library's own algorithms are timed on.

    `on`: As for `labkit.run`: "mpi", a cluster of engines, options of Slurm.
    `library`: "ompi" or "mpich".
    `repeats`: When a measurement ends; default: an interval of 5 %, or 2 s.
    `**options`: Further options of `labkit.run`, such as ``timeout_s=``.
    """

    how = "measured"

    def __init__(
        self, on: object = "mpi", library: str = "ompi", repeats: Repeats | None = None, **options: Any
    ) -> None:
        if library not in ("ompi", "mpich"):
            raise DataError(
                f"library must be ompi or mpich on a real machine, got {library!r}", code="unknown-name"
            )
        self.on, self.library, self.options = on, library, options
        self.notes: list[str] = []  # what the runs have noted, such as ranks that share cores
        self.repeats = Repeats(most_s=2.0) if repeats is None else repeats
        where = on if isinstance(on, str) else type(on).__name__
        self.name = f"{where} ({LIBRARIES[library]})"

    def situation(self, operation: str, ranks: int, n_bytes: int) -> Situation:
        """Return what a choice may depend on here."""
        return Situation(operation, ranks, n_bytes, machine=self.name, ranks_per_node=ranks)

    def time(self, at: Situation, name: str) -> float:
        """Refuse: what was not measured in the campaign is not known."""
        where = f"{self.name} with {at.ranks} ranks, {at.n_bytes} B"
        raise DataError(f"{at.operation}/{name} was not measured on {where}", code="no-data")

    def measure(
        self,
        operation: str,
        ranks: Sequence[int],
        sizes: Sequence[int],
        algorithms: Sequence[str] | None,
        progress: bool | None = None,
    ) -> pd.DataFrame:
        """Measure the library's algorithms at every number of ranks and size.

        Returns: operation, ranks, bytes, algorithm, time_s (median), low_s, high_s (its 95 % interval).
        """
        if operation not in _BUFFERS:
            raise DataError(
                f"{operation} cannot be tuned on a real machine; allowed: {', '.join(_BUFFERS)}",
                code="unsupported",
            )
        known = library_names(self.library, operation)
        names = known if algorithms is None else list(dict.fromkeys(algorithms))
        if unknown := [name for name in names if name.partition(":")[0] not in known]:
            raise DataError(
                f"{LIBRARIES[self.library]} has no {operation}/{unknown[0]}; it has {', '.join(known)}",
                code="unknown-name",
            )
        names = [name for name in names if name != "two_process" or list(ranks) == [2]]
        rows: list[tuple[object, ...]] = []
        with progress_bar(len(ranks) * len(names), progress) as bar:
            for p in ranks:
                for name in names:
                    found = self.measured(operation, p, sizes, {operation: f"library:{name}"})
                    rows += [(operation, p, n, name, *times) for n, times in zip(sizes, found, strict=True)]
                    bar.update()
        return pd.DataFrame(rows, columns=COLUMNS)

    def measured(
        self, operation: str, ranks: int, sizes: Sequence[int], coll: Any
    ) -> list[tuple[float, float, float]]:
        """Return the median and its interval for every size, in one start."""
        done = run(
            _program, ranks, self.on, args=(operation, tuple(sizes), self.repeats), coll=coll, **self.options
        )
        self.notes = list(dict.fromkeys([*self.notes, *(n for n in done.notes if "switch" not in n)]))
        found: list[tuple[float, float, float]] = done.results[0]
        return found


def gain(tuned: Any) -> pd.DataFrame:
    """Give the tuned rules to the library, and measure what they gain over its own choice.

    `tuned`: Of a `RealMachine` with Open MPI.
    Returns: ranks, bytes, algorithm (of the rules), library_s, tuned_s, gain (library_s / tuned_s), and
        verdict: faster or slower where the intervals of both medians are apart, else undecided.
    """
    machine = tuned.machine
    if not isinstance(machine, RealMachine) or machine.library != "ompi":
        raise MachineError(
            "only Open MPI's rules can be checked; save the rules and set MPICH's variable manually "
            "(MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE)",
            code="unsupported",
        )
    sizes = sorted({int(n) for n in tuned.times["bytes"]})
    chosen = tuned.losses().set_index(["ranks", "bytes"])["algorithm"]
    rows = []
    with tempfile.TemporaryDirectory(prefix="labkit-rules-") as folder:
        path = tuned.save(Path(folder) / "tuned.conf")
        for p in sorted({int(p) for p in tuned.times["ranks"]}):
            before = machine.measured(tuned.operation, p, sizes, None)
            with _rules(path):
                after = machine.measured(tuned.operation, p, sizes, None)
            for n, (own_s, own_low, own_high), (new_s, new_low, new_high) in zip(
                sizes, before, after, strict=True
            ):
                verdict = "faster" if new_high < own_low else "slower" if new_low > own_high else "undecided"
                rows.append((p, n, chosen[p, n], own_s, new_s, own_s / new_s, verdict))
    columns = ["ranks", "bytes", "algorithm", "library_s", "tuned_s", "gain", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def _rules(path: Path) -> Any:
    """Have Open MPI read rules in the runs that start meanwhile."""
    wanted = {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_priority": "100",
        "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(path),
    }
    return patch.dict(os.environ, wanted)


def _program(
    comm: Intracomm, operation: str, sizes: tuple[int, ...], repeats: Repeats
) -> list[tuple[float, float, float]]:
    """Measure one call for every size."""
    found, call = [], getattr(comm, PROBLEMS[operation].method)
    for n_bytes in sizes:
        buffers = [*np.zeros((2, n_bytes), np.uint8), *np.zeros((2, n_bytes * comm.Get_size()), np.uint8)]
        given = [buffers[i] for i in _BUFFERS[operation]]
        timing = measure(comm, partial(call, *given), repeats=repeats, warmup=3)
        interval = timing.interval
        found.append((interval.value, interval.low, interval.high))
    return found
