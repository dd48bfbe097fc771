"""The sorters of the demo: their inputs, and their runs on growing simulated machines, fitted and judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit import registry
from labkit.algorithms.sort_checker import check_sorted
from labkit.datasets import flights, inputs
from labkit.errors import CheckError
from labkit.program.context import phase
from labkit.result import Run

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from labkit.study import Comparison, Study, Table

__all__ = [
    "FULL",
    "KEYS_PER_RANK",
    "LARGE",
    "MACHINES",
    "QUICK",
    "Extent",
    "Extrapolation",
    "FlightSort",
    "SimulatedSort",
    "compared",
    "extrapolate",
    "flight_keys",
    "keys_per_rank",
    "simulate",
    "sort_flights",
    "sort_generated",
    "title",
]

KEYS_PER_RANK = 1000

COLUMNS = ("dep_delay", "arr_delay", "distance")
#: the five of the paper, in the order in which they are shown
SORTERS = ("sample_sort", "histogram_sort", "exact_splitting_sort", "radix_sort", "mini_sort")

#: what a reader calls it -> a platform that grows with the ranks
MACHINES = {"star": "star", "torus": "torus", "fat tree": "fattree"}


@dataclass(frozen=True)
class Extent:
    """The extent of a demo.

    `real`: Numbers of ranks on real MPI.
    `simulated`: Numbers of ranks that are simulated and fitted: at least five, as a verdict needs.
    `larger`: One more number of ranks, predicted from the fits and then simulated.
    `columns`: Of the flights.
    `sorters`: Names of registered sorters.
    `machines`: Name -> platform.
    `limit_s`: Limit of host time of each simulated run.
    """

    real: tuple[int, ...]
    simulated: tuple[int, ...]
    larger: int
    columns: tuple[str, ...]
    sorters: tuple[str, ...] = SORTERS
    machines: Mapping[str, str] = field(default_factory=lambda: dict(MACHINES))
    limit_s: float | None = 60.0


FULL = Extent((1, 2, 4), (16, 32, 64, 128, 256), 512, COLUMNS)

#: minutes of work; the widest range of p, so the hardest test of every expectation
LARGE = Extent((1, 2, 4), (16, 32, 64, 128, 256, 512, 1024), 2048, COLUMNS, limit_s=None)

QUICK = Extent((1, 2), (4, 8, 16, 32, 64), 128, COLUMNS[2:])


def keys_per_rank(sorter: str) -> int:
    """Return how many keys a demo gives each rank: 1000, or what the sorter requires."""
    return registry.get("sorting", sorter).requirements.keys_per_rank or KEYS_PER_RANK


def title(sorter: str) -> str:
    """Return a sorter's name without underscores."""
    return sorter.replace("_", " ")


# The demo's two programs: the sorters are the same, the keys and the checks differ.

Keys = NDArray[Any]

#: this rank's block, and the checker's message, judgment and imbalance
FlightSort = tuple[Keys, str, bool, float]


def flight_keys(sorter: str, column: str, rank: int, ranks: int, source: flights.Source) -> Keys:
    """Return a rank's share of a column: all of it, or the first keys of it if the sorter takes no more."""
    wanted = registry.get("sorting", sorter).requirements.keys_per_rank
    return flights.block(column, rank, ranks, source)[:wanted]


def sort_flights(
    comm: Intracomm, sorters: Sequence[str], columns: Sequence[str], source: flights.Source
) -> list[FlightSort]:
    """Sort columns of the flights with every sorter, columns within sorters."""
    done = []
    for sorter in sorters:
        sort = registry.get("sorting", sorter).function
        assert sort is not None
        for column in columns:
            with phase("read"):
                keys = flight_keys(sorter, column, comm.rank, comm.size, source)
            comm.Barrier()
            with phase(f"{sorter} {column}"):
                block = np.asarray(sort(comm, keys))
            with phase("check"):
                report = check_sorted(comm, keys, block)
            done.append((block, str(report), report.is_sorted, report.imbalance))
    return done


def sort_generated(comm: Intracomm, sorter: str, n_local: int) -> Keys:
    """Sort n_local uniform keys per rank, drawn from the run's seed; making them costs no simulated time."""
    sort = registry.get("sorting", sorter).function
    assert sort is not None
    return np.asarray(sort(comm, inputs.keys("uniform", comm.rank, comm.size, n_local)))


MODEL = "lab"


@dataclass
class SimulatedSort:
    """A sweep of one sorter over one machine that grows.

    `table`: Per phase and for the whole run: expectation, model, divergence, match.
    `n_local`: Keys per rank.
    `imbalances`: Ranks -> largest block divided by the mean block, of all seeds.
    `messages`: Ranks -> simulated messages, the most of all seeds.
    `host_seconds`: Ranks -> what the simulations cost on this host.
    """

    sorter: str
    machine: str
    study: Study
    table: Table
    n_local: int
    imbalances: dict[int, float] = field(default_factory=dict)
    messages: dict[int, int] = field(default_factory=dict)
    host_seconds: dict[int, float] = field(default_factory=dict)

    @property
    def on(self) -> str:
        """The platform."""
        return str(self.study.data["on"].iloc[0])

    @property
    def largest(self) -> int:
        """The largest number of ranks that was fitted."""
        return max(self.imbalances)

    def makespans(self) -> dict[int, float]:
        """Return the simulated makespan of each number of ranks, the median of its seeds, in seconds."""
        rows = self.study.data[self.study.data["metric"] == "makespan_s"]
        return {int(str(p)): float(values.median()) for p, values in rows.groupby("ranks")["value"]}

    def shares(self, ranks: int) -> dict[str, float]:
        """Return each phase's share of the makespan at a number of ranks (slowest rank in each phase)."""
        rows = self.study.data[self.study.data["ranks"] == ranks]
        phases = rows[rows["metric"] == "phase_s"].groupby("phase", sort=False)["value"].median()
        return {str(name): float(value) / self.makespans()[ranks] for name, value in phases.items()}


def simulate(plan: Extent, done: Callable[[SimulatedSort], None] = lambda _: None) -> list[SimulatedSort]:
    """Sort with every sorter of a plan on each of its machines; fit and judge every phase."""
    sweeps = []
    for sorter in plan.sorters:
        for machine, on in plan.machines.items():
            sweeps.append(simulate_one(sorter, machine, on, plan.simulated, plan.limit_s))
            done(sweeps[-1])
    return sweeps


def simulate_one(
    sorter: str, machine: str, on: str, ranks: Sequence[int], limit_s: float | None = 60.0
) -> SimulatedSort:
    """Sweep one sorter over one machine."""
    from labkit.study import sweep

    n_local = keys_per_rank(sorter)
    messages: dict[int, int] = {}
    host_seconds: dict[int, float] = dict.fromkeys(ranks, 0.0)
    wrong: list[int] = []
    imbalances: dict[int, float] = {}

    def examine(outcome: Run) -> dict[str, float]:
        p = outcome.ranks
        given = [inputs.keys("uniform", rank, p, n_local, seed=outcome.seed) for rank in range(p)]
        if not np.array_equal(np.concatenate(outcome.results), np.sort(np.concatenate(given))):
            wrong.append(p)
        imbalances[p] = max(imbalances.get(p, 0.0), max(map(len, outcome.results)) / n_local)
        messages[p] = max(messages.get(p, 0), outcome.messages or 0)
        host_seconds[p] += outcome.host_seconds
        return {}

    study = sweep(
        sort_generated,
        list(ranks),
        on,
        model=MODEL,
        progress=False,
        measure=examine,
        timeout_s=limit_s,
        sorter=sorter,
        n_local=n_local,
    )
    if wrong:
        found = ", ".join(map(str, dict.fromkeys(wrong)))
        raise CheckError(f"{title(sorter)} simulated on {on} differs from NumPy's at ranks {found}")
    expectations = dict(registry.get("sorting", sorter).expectations)
    total = expectations.pop("")
    return SimulatedSort(
        sorter, machine, study, study.table(expectations, total), n_local, imbalances, messages, host_seconds
    )


def compared(sweeps: Sequence[SimulatedSort]) -> Comparison:
    """Put the tables of all sweeps side by side: sorters down, machines across."""
    from labkit.study import Comparison

    tables: dict[str, dict[str, Table]] = {}
    for one in sweeps:
        tables.setdefault(title(one.sorter), {})[one.machine] = one.table
    return Comparison(tables)


@dataclass(frozen=True)
class Extrapolation:
    """What the fits of a sweep say about a machine larger than all that were fitted, and what comes out.

    `simulated_s`: The simulated makespan, the median of as many seeds as in the sweep.
    `model_s`: What the best model predicts, or NaN.
    `expected_s`: What the curve of the expectation predicts, fitted to the same points, or NaN.
    """

    sorter: str
    machine: str
    ranks: int
    simulated_s: float
    model_s: float
    expected_s: float


def extrapolate(swept: SimulatedSort, ranks: int, limit_s: float | None = 60.0) -> Extrapolation:
    """Simulate one more, larger machine, and compare the makespan with what the fits predict for it."""
    from labkit.study import sweep

    study = sweep(
        sort_generated,
        ranks,
        swept.on,
        model=MODEL,
        progress=False,
        timeout_s=limit_s,
        sorter=swept.sorter,
        n_local=swept.n_local,
    )
    simulated_s = float(study.data.loc[study.data["metric"] == "makespan_s", "value"].median())
    model, verdict = swept.table.models["whole run"], swept.table.verdicts.get("whole run")
    reference = verdict.reference if verdict is not None else None
    return Extrapolation(
        swept.sorter,
        swept.machine,
        ranks,
        simulated_s,
        float(model.predict(ranks)) if model is not None else float("nan"),
        float(reference.predict(ranks)) if reference is not None else float("nan"),
    )
