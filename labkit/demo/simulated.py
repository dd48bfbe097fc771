"""The same sort on a simulated cluster that grows, its phases fitted and judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from labkit import registry
from labkit.datasets import inputs
from labkit.demo.programs import sort_generated
from labkit.errors import CheckError
from labkit.run import Run, run

if TYPE_CHECKING:
    from labkit.study import Study, Table

__all__ = ["Extrapolation", "SimulatedSort", "extrapolate", "sort_on_simulated_cluster"]


@dataclass
class SimulatedSort:
    """A sweep of the sort over a growing simulated cluster.

    Attributes
    ----------
    study : Study
    table : Table
        Per phase and for the whole run: expectation, model, divergence, match.
    n_local : int
        Keys per rank.
    imbalances : dict of int to float
        Ranks -> largest block divided by the mean block.
    host_seconds : dict of int to float
        Ranks -> what the simulation cost on this host.
    """

    study: Study
    table: Table
    n_local: int
    imbalances: dict[int, float] = field(default_factory=dict)
    host_seconds: dict[int, float] = field(default_factory=dict)

    def shares(self, ranks: int) -> dict[str, float]:
        """Return each phase's share of the makespan at a number of ranks (slowest rank in each phase)."""
        rows = self.study.data[self.study.data["ranks"] == ranks]
        makespan = float(rows.loc[rows["metric"] == "makespan_s", "value"].iloc[0])
        phases = rows[rows["metric"] == "phase_s"]
        shares = (phases["value"] / makespan).astype(float).tolist()
        return dict(zip(phases["phase"].tolist(), shares, strict=True))


@dataclass(frozen=True)
class Extrapolation:
    """What the fits of a sweep say about a machine larger than all that were fitted, and what comes out.

    Attributes
    ----------
    name : str
        A phase, or "whole run".
    ranks : int
    simulated_s : float
        The simulated time.
    model_s : float
        What the best model predicts.
    expected_s : float
        What the curve of the expectation predicts, fitted to the same points; NaN if there is none.
    """

    name: str
    ranks: int
    simulated_s: float
    model_s: float
    expected_s: float


def extrapolate(simulated: SimulatedSort, ranks: int) -> list[Extrapolation]:
    """Simulate one more, larger machine; compare each phase with what the fits predict for it.

    Parameters
    ----------
    simulated : SimulatedSort
        The sweep whose fits are put to the test.
    ranks : int
        More than any of the sweep.
    """
    data = simulated.study.data
    on, model = str(data["on"].iloc[0]), str(data["model"].iloc[0])
    outcome = run(sort_generated, ranks, on, model=model, kwargs={"n_local": simulated.n_local})
    times = {row[0]: row[2] for row in outcome.phase_rows()} | {"whole run": outcome.makespan_s}
    results = []
    for name, fitted, verdict in simulated.table:
        if fitted is not None:
            reference = verdict.reference if verdict is not None else None
            expected_s = float(reference.predict(ranks)) if reference is not None else float("nan")
            results.append(Extrapolation(name, ranks, times[name], float(fitted.predict(ranks)), expected_s))
    return results


def sort_on_simulated_cluster(
    ranks: Sequence[int],
    n_local: int = 1000,
    on: str = "star",
    model: str = "lab",
    done: Callable[[Run], None] = lambda outcome: None,
) -> SimulatedSort:
    """Sort n_local keys per rank on simulated machines of growing size; fit and judge every phase.

    Parameters
    ----------
    ranks : sequence of int
        At least five numbers, as a verdict needs.
    n_local : int
        Keys per rank (weak scaling).
    on, model : str
        The platform and its network model.
    done : callable
        Told of each run, after its result was compared with NumPy.

    Raises
    ------
    CheckError
        If a result is not the sorted sequence of the keys.
    """
    from labkit.study import sweep

    imbalances: dict[int, float] = {}
    host_seconds: dict[int, float] = {}
    wrong: list[int] = []

    def examine(outcome: Run) -> dict[str, float]:
        p = outcome.ranks
        given = [inputs.keys("uniform", rank, p, n_local) for rank in range(p)]
        if not np.array_equal(np.concatenate(outcome.results), np.sort(np.concatenate(given))):
            wrong.append(p)
        imbalances[p] = max(map(len, outcome.results)) / n_local
        host_seconds[p] = outcome.host_seconds
        done(outcome)
        return {}

    study = sweep(
        sort_generated,
        list(ranks),
        on,
        model=model,
        repeats=1,
        progress=False,
        measure=examine,
        n_local=n_local,
    )
    if wrong:
        raise CheckError(f"the simulated sort differs from NumPy's at ranks {', '.join(map(str, wrong))}")
    expectations = dict(registry.get("sorting", "sample_sort").expectations)
    total = expectations.pop("")
    return SimulatedSort(study, study.table(expectations, total), n_local, imbalances, host_seconds)
