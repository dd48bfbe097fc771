"""Predicted costs of each algorithm, by formula, LogGP and simulation, and what nothing undercuts."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from labkit import registry
from labkit.calibration.loggp import fit_loggp, measure_round_trips
from labkit.errors import DataError
from labkit.platform import models
from labkit.platform.platform import Platform
from labkit.result import Run
from labkit.selector.settled import settled, without_bytes
from labkit.sim.schedules import simulate
from labkit.study import Study
from labkit.synthesis.bounds import lower_bounds
from labkit.synthesis.fabric import fabric_of
from labkit.tune.campaign import Machine

__all__ = ["COLUMNS", "Costs", "measured_points"]


#: who carried out a call that names no algorithm
LIBRARY = "library"
_SIZES = ("bytes", "n_bytes")


def measured_points(
    measured: Any, operation: str, ranks: Sequence[int], sizes: Sequence[int]
) -> pd.DataFrame:
    """Return the median time of each algorithm at each of a card's points.

    Parameters
    ----------
    measured : Run, Study or DataFrame
        See `labkit.tune.cards.card`.
    operation : str
    ranks, sizes : sequence of int
        The card's.

    Returns
    -------
    DataFrame
        ranks, bytes, algorithm, time_s.

    Raises
    ------
    DataError
        It is something else, or holds none of the card's points.
    """
    if isinstance(measured, Run):
        found = _of_run(measured, operation)
    elif isinstance(measured, Study):
        found = _of_study(measured, operation)
    elif isinstance(measured, pd.DataFrame):
        found = measured
    else:
        raise DataError(
            "measured takes a run with a trace, a study, or a table with ranks, bytes and time_s; got a "
            f"{type(measured).__name__}"
        )
    missing = [name for name in ("ranks", "bytes", "time_s") if name not in found]
    if missing:
        raise DataError(f"the measurements have no {missing[0]!r}; they have: {', '.join(map(str, found))}")
    if "algorithm" not in found:
        found = found.assign(algorithm=LIBRARY)
    here = found[found["ranks"].isin(ranks) & found["bytes"].isin(sizes)]
    if here.empty:
        what = f"{sorted(set(found['ranks']))} ranks and {sorted(set(found['bytes']))} bytes"
        raise DataError(
            f"the measurements of {operation} have no point of the card, which has {list(ranks)} ranks and "
            f"{list(sizes)} bytes; they have " + (what if len(found) else "no such call")
        )
    groups = here.groupby(["ranks", "bytes", "algorithm"], sort=False)["time_s"]
    medians: pd.DataFrame = groups.median().reset_index()
    return medians


def _of_run(run: Run, operation: str) -> pd.DataFrame:
    """Every call of the collective by all ranks: from the last one's begin to the last one's end."""
    calls = None if run.trace is None else run.trace.calls
    if calls is None:
        raise DataError(f"{run.program} on {run.on} has no noted calls; run it with trace=True")
    own = calls[(calls["call"].str.lower() == operation) & (calls["joint"] >= 0)]
    joint = own.groupby("joint").agg(
        ranks=("rank", "size"), bytes=("bytes", "max"), begin_s=("begin_s", "max"), end_s=("end_s", "max")
    )
    joint["time_s"] = joint["end_s"] - joint["begin_s"]
    found: pd.DataFrame = joint[["ranks", "bytes", "time_s"]].reset_index(drop=True)
    return found


def _of_study(study: Study, operation: str) -> pd.DataFrame:
    """The phase with the operation's name, else the makespan."""
    rows = study.data
    is_phase = (rows["metric"] == "phase_s") & (rows["phase"] == operation)
    rows = rows[is_phase] if is_phase.any() else rows[rows["metric"] == "makespan_s"]
    size = next((name for name in _SIZES if name in rows), None)
    if size is None:
        raise DataError(
            f"a study on a card must vary the parameter {' or '.join(_SIZES)}; this one has "
            f"{', '.join(map(str, study.data.columns))}"
        )
    columns = ["ranks", size, "value", *(["algorithm"] if "algorithm" in rows else [])]
    found: pd.DataFrame = rows[columns].rename(columns={size: "bytes", "value": "time_s"})
    return found


COLUMNS = [
    "ranks", "bytes", "algorithm", "rounds", "volume_bytes", "formula_s", "loggp_s", "simulated_s",
    "measured_s", "bound_s",
]  # fmt: skip
#: the bound looks at every pair of ranks: of more ranks there is none
_MOST_BOUND = 256


class Costs:
    """The predictions of one machine.

    Parameters
    ----------
    operation : str
    machine : Platform
    model : str or NetworkModel, optional
    names : sequence of str
        Algorithms, as `labkit.tune.campaign.candidates` returns them.
    largest : int
        Bytes of the largest message.

    Attributes
    ----------
    network : NetworkModel
    alpha_s, beta_s_per_byte : float
        Of a message between two hosts: an empty one's time, and what each byte of the largest one adds.
    loggp : LogGP
        Fitted to round trips of 1 B to 32 kB between the same hosts.
    """

    def __init__(
        self, operation: str, machine: Platform, model: Any, names: Sequence[str], largest: int
    ) -> None:
        self.operation, self.machine, self.names = operation, machine, list(names)
        self.network = machine.network(model)
        self._timed = Machine(machine, self.network)
        pair = _two_hosts(machine)
        self.loggp = fit_loggp(measure_round_trips(pair, repeats=1, model=self.network))
        trips = measure_round_trips(pair, {0, largest}, messages=2, repeats=1, model=self.network)
        ways = trips[trips["messages"] == 1].set_index("bytes")["seconds"] / 2
        self.alpha_s = float(ways[0])
        self.beta_s_per_byte = float(ways[largest] - ways[0]) / largest if largest else 0.0
        self._ideal = models.get("loggps", **self.loggp.options())

    def table(self, ranks: Sequence[int], sizes: Sequence[int], points: pd.DataFrame | None) -> pd.DataFrame:
        """Return a row for each algorithm at each point where it can be used, with the columns of `COLUMNS`.

        Parameters
        ----------
        ranks, sizes : sequence of int
        points : DataFrame, optional
            Measured: ranks, bytes, algorithm, time_s. What is no algorithm of the card has its own rows.
        """
        rows = []
        for p in ranks:
            bounds = [nan] * len(sizes)
            if p <= _MOST_BOUND:
                fabric = fabric_of(self.machine.sized(p), p, self.network)
                bounds = [bound.seconds for bound in lower_bounds(fabric, self.operation, sizes)]
            for n_bytes, bound_s in zip(sizes, bounds, strict=True):
                rows += [(*row, nan, bound_s) for row in self._rows(p, n_bytes)]
        found = pd.DataFrame(rows, columns=COLUMNS)
        return found if points is None else _joined(found, points)

    def _rows(self, p: int, n_bytes: int) -> list[tuple[Any, ...]]:
        at = self._timed.situation(self.operation, p, n_bytes)
        rows = []
        for name in self.names:
            plain = registry.get(self.operation, without_bytes(self.operation, name))
            if plain.requirements.unmet(p, True):
                continue
            algorithm = registry.get(self.operation, settled(at, name, self._timed.node(p)))
            rounds = volume = formula_s = nan
            if algorithm.cost is not None:
                cost = algorithm.cost(p, n_bytes)
                rounds, volume = cost.rounds, cost.volume_bytes
                formula_s = cost.seconds(self.alpha_s, self.beta_s_per_byte)
            alone = simulate(algorithm.build(p), f"star:{p}", self._ideal, n_bytes=n_bytes).makespan_s
            there = self._timed.time(at, name)
            rows.append((p, n_bytes, name, rounds, volume, formula_s, alone, there))
        return rows


def _two_hosts(machine: Platform) -> Platform:
    """Return the machine with its first two ranks on different hosts, where it has two."""
    most = 2 if machine.capacity is None else machine.capacity
    hosts = machine.mapped("block").rank_hosts(most)
    others = np.flatnonzero(hosts != hosts[0])
    if not others.size:
        return machine
    return machine.sized(most).mapped([int(hosts[0]), int(hosts[others[0]])])


def _joined(found: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Put measured times beside what is predicted of the same algorithm at the same point."""
    times = {(int(p), int(n), str(a)): float(t) for p, n, a, t in points.itertuples(index=False)}
    keys = list(zip(found["ranks"], found["bytes"], found["algorithm"], strict=True))
    found = found.assign(measured_s=[times.pop(key, nan) for key in keys])
    bounds = found.groupby(["ranks", "bytes"])["bound_s"].first().to_dict()
    more = [
        {"ranks": p, "bytes": n, "algorithm": name, "measured_s": time_s, "bound_s": bounds.get((p, n), nan)}
        for (p, n, name), time_s in times.items()
    ]
    if not more:
        return found
    return pd.DataFrame([*found.to_dict("records"), *more], columns=COLUMNS)
