"""The cost card of a collective: what formulas, LogGP, simulation and measurements say of every algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from labkit import registry
from labkit.calibration.loggp import fit_loggp, measure_round_trips
from labkit.checks import whole_numbers
from labkit.errors import DataError, SuggestsNames
from labkit.machines import models, platform
from labkit.machines.platform import Platform
from labkit.models import LogGP
from labkit.plot_backend import draw
from labkit.result import Run
from labkit.selector.situation import candidates, settled, without_bytes
from labkit.sim.schedules import simulate
from labkit.study import Study
from labkit.synthesis.bounds import lower_bounds
from labkit.synthesis.fabric import fabric_of
from labkit.text import html as markup
from labkit.text.html import quantity
from labkit.text.units import format_bytes, format_seconds, number_of_ranks
from labkit.tuning.tuned import SimulatedMachine

__all__ = ["COLUMNS", "Card", "card"]


#: bytes and ranks where none are said
_SIZES = (8, 64, 512, 4096, 32_768, 262_144, 2_097_152)
_MOST_RANKS, _GROWN_RANKS = 64, 16


def card(
    operation: str,
    on: object = "star",
    p: int | Sequence[int] | None = None,
    bytes: int | Sequence[int] | None = None,
    *,
    algorithms: Sequence[str] | None = None,
    model: object = None,
    mapping: Any = None,
    measured: object = None,
) -> Card:
    """Compare everything that is known of a collective's cost with each other, over its bytes or its ranks.

    For each algorithm that can be used: the closed formula of its file, with alpha and beta of this machine
    (an empty message between two hosts, and what each byte of the card's largest size adds); its schedule
    under LogGP, which has no network between the hosts; and its simulation on the machine itself. Beside
    them a time that no algorithm undercuts, and measurements where some are given. Combining costs nothing,
    as in simulated runs.

    Parameters
    ----------
    operation : str
        Such as ``"allreduce"``.
    on : str or Platform
        A simulated machine.
    p : int or sequence of int, optional
        Ranks; default: as many as the machine holds, 64 at most, 16 on one that grows. Where `bytes` is one
        number: powers of two up to that.
    bytes : int or sequence of int, optional
        The message of a bcast, reduction or scan, one block of the others; default: 8 B to 2 MB. One of `p`
        and `bytes` may be a sequence.
    algorithms : sequence of str, optional
        Such as ``["ring", "pipeline:segment_bytes=8192"]``; default: all of the registry.
    model : str or NetworkModel, optional
        Network model; default: the machine's.
    mapping : str, path or sequence of int, optional
        Hosts of the ranks, as in `labkit.run`.
    measured : Run, Study or DataFrame, optional
        A run with a trace: each call's time from its last rank's begin to its last rank's end. A study over
        ``ranks`` and ``bytes`` (or ``n_bytes``), and maybe ``algorithm``: its phase with the operation's
        name, else the makespan. A table with ranks, bytes, time_s and maybe algorithm.

    Returns
    -------
    Card
        `data`, `winners`, `reading`, `plot()`; a notebook shows its table.

    Raises
    ------
    DataError
        For a collective or algorithm that is not known, two sequences, amounts that are none, or measurements
        that hold no such call.
    PlatformError
        For a machine that is not known, or too small.

    Examples
    --------
    >>> found = card("bcast", "star:8,model=raw", bytes=[8, 10**6], algorithms=["binomial", "linear"])
    >>> found.winners["algorithm"].tolist()
    ['linear', 'binomial']
    """
    names = candidates(operation, algorithms)
    machine = platform(on).mapped(mapping)
    ranks, sizes = _axes(operation, machine, p, bytes)
    for many in ranks:
        machine.rank_hosts(many)  # too small: refused before anything runs
    points = None if measured is None else measured_points(measured, operation, ranks, sizes)
    costs = Predictions(operation, machine, model, names, sizes[-1])
    return Card(
        operation,
        machine,
        costs.network.name,
        costs.alpha_s,
        costs.beta_s_per_byte,
        costs.loggp,
        costs.table(ranks, sizes, points),
    )


def _axes(operation: str, machine: Platform, p: object, n_bytes: Any) -> tuple[list[int], list[int]]:
    """Return ranks and sizes, of which one has one entry."""
    capacity = machine.capacity
    most = _GROWN_RANKS if capacity is None else min(capacity, _MOST_RANKS)
    if operation == "barrier":
        if n_bytes not in (None, 0):
            raise DataError(
                f"a barrier has no bytes; leave bytes out, got {n_bytes!r}", code="conflicting-options"
            )
        n_bytes = 0
    if p is None:
        p = most
        if n_bytes is not None and np.ndim(n_bytes) == 0:
            p = sorted({2**k for k in range(1, most.bit_length() + 1) if 2**k <= most} | {most})
    if n_bytes is None:
        n_bytes = _SIZES
    all_ranks, sizes = whole_numbers("p", p, 1), whole_numbers("bytes", n_bytes, 0)
    if len(all_ranks) > 1 and len(sizes) > 1:
        raise DataError(
            "a card goes along the ranks or along the bytes: give one number for the other one, "
            "as in p=16 or bytes=65536",
            code="ambiguous",
        )
    return all_ranks, sizes


# A collective's cost card: its table, which algorithm is the fastest where, and both as text.


#: simulated times that differ by less are equal: sums of the same terms in another order
_EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class Card(SuggestsNames):
    """What is known of a collective's cost on one machine; made by `labkit.card`.

    `model`: The network model.
    `alpha_s`, `beta_s_per_byte`: A message between two hosts, in the formulas.
    `data`: A row for each algorithm at each point where it can be used: ranks, bytes, algorithm, rounds and
        volume_bytes on its slowest path, formula_s (alpha rounds + beta volume), loggp_s, simulated_s,
        measured_s, bound_s (no algorithm undercuts it). NaN where something is not known.
    """

    operation: str
    machine: Platform
    model: str
    alpha_s: float
    beta_s_per_byte: float
    loggp: LogGP
    data: pd.DataFrame

    @property
    def axis(self) -> str:
        """Along what the card goes: "bytes" or "ranks"."""
        return "ranks" if self.data["ranks"].nunique() > 1 else "bytes"

    @cached_property
    def winners(self) -> pd.DataFrame:
        """The fastest simulated algorithm from one point of the axis to another: first, last, algorithm.

        Of equally fast ones that is taken which stays the fastest for longer; of these the first by name,
        one without settings before others. Where it changes between two points is a crossover.
        """
        points: list[tuple[Any, set[str]]] = []
        for at, rows in self._simulated.groupby(self.axis):
            least = rows["simulated_s"].min() * (1 + _EQUAL)
            points.append((at, set(rows.loc[rows["simulated_s"] <= least, "algorithm"])))
        found: list[tuple[object, object, set[str]]] = []
        for at, fastest in points:
            if found and found[-1][2] & fastest:
                found[-1] = (found[-1][0], at, found[-1][2] & fastest)
            else:
                found.append((at, at, fastest))
        spans = [(first, last, min(names, key=lambda n: (":" in n, n))) for first, last, names in found]
        return pd.DataFrame(spans, columns=["first", "last", "algorithm"])

    @cached_property
    def best(self) -> pd.DataFrame:
        """The winner's row of `data` at each point of the axis."""
        rows = []
        for first, last, name in self.winners.itertuples(index=False):
            here = self._simulated[self._simulated[self.axis].between(first, last)]
            rows.append(here[here["algorithm"] == name])
        whole: pd.DataFrame = pd.concat(rows).sort_values(self.axis).reset_index(drop=True)
        return whole

    @property
    def _simulated(self) -> pd.DataFrame:
        return self.data[self.data["simulated_s"].notna()]

    @property
    def title(self) -> str:
        """What is on the card."""
        where = f"{self.operation} on {self.machine.name}"
        if self.axis == "ranks":
            size = int(self.data["bytes"].iloc[0])
            return f"{where}, {format_bytes(size)}" if self.operation != "barrier" else where
        p = int(self.data["ranks"].iloc[0])
        return f"{where}, {number_of_ranks(p)}"

    @property
    def reading(self) -> str:
        """Which algorithm is the fastest where, and how far that is from the lower bound; a few sentences."""
        count = self._simulated["algorithm"].nunique()
        parts = [
            f"{name} {self._span(first, last)}" for first, last, name in self.winners.itertuples(index=False)
        ]
        if count == 1:
            said = f"{self.title}: only {self.winners['algorithm'].iloc[0]} was simulated."
        else:
            said = f"{self.title}: simulated, none of {count} is faster than {'; '.join(parts)}."
        return " ".join([said, *self._crossed(), *self._above(), *self._off()])

    def _crossed(self) -> list[str]:
        turns = self.winners["algorithm"].nunique()
        if turns < 2:
            return []
        pairs = zip(self.winners["last"], self.winners["first"][1:], strict=False)
        places = [f"{self._at(a)} and {self._at(b)}" for a, b in pairs]
        return [f"Crossover{'s' if len(places) > 1 else ''} between {', '.join(places)}."]

    def _above(self) -> list[str]:
        ratio = (self.best["simulated_s"] / self.best["bound_s"])[self.best["bound_s"] > 0]
        if ratio.empty:
            return []
        low, high = f"{ratio.min():.3g}", f"{ratio.max():.3g}"
        span = low if low == high else f"{low} to {high}"
        return [f"The fastest takes {span} times the lower bound."]

    def _off(self) -> list[str]:
        """Return as sentences where the formula of the fastest is farthest from its simulation."""
        known = self.best[(self.best["formula_s"] > 0) & (self.best["simulated_s"] > 0)]
        if known.empty:
            return []
        ratio = (known["formula_s"] / known["simulated_s"]).to_numpy(float)
        far = int(np.abs(np.log(ratio)).argmax())
        if f"{ratio[far]:.3g}" == "1":
            return ["Formulas and simulation of the fastest agree everywhere."]
        row = known.iloc[far]
        return [
            f"A formula is farthest from the fastest's simulation for {row['algorithm']} at "
            f"{self._at(row[self.axis])}: it predicts {ratio[far]:.3g} times the simulated time."
        ]

    def _span(self, first: float, last: float) -> str:
        return f"at {self._at(first)}" if first == last else f"at {self._at(first)} to {self._at(last)}"

    def _at(self, value: float) -> str:
        return format_bytes(int(value)) if self.axis == "bytes" else f"{int(value)} ranks"

    def plot(self, **options: object) -> Any:
        """Draw it: `labkit.plot.card`, which takes the options."""
        return draw("card", self, **options)

    def rows(self) -> list[list[str]]:
        """Return the table that is shown: at each point the winner, all its times, and the lower bound."""
        has_measured = bool(self.data["measured_s"].notna().any())
        rows = []
        for row in self.best.to_dict("records"):
            here = self.data[self.data[self.axis] == row[self.axis]]
            cells = [self._at(row[self.axis]), row["algorithm"]]
            cells += [format_seconds(row[f"{name}_s"]) for name in ("formula", "loggp", "simulated", "bound")]
            if has_measured:
                own = here.dropna(subset="measured_s").sort_values("measured_s")
                pairs = own[["algorithm", "measured_s"]].itertuples(index=False)
                cells.append(", ".join(f"{name} {format_seconds(time_s)}" for name, time_s in pairs) or "–")
            rows.append(cells)
        return rows

    @property
    def head(self) -> list[str]:
        """The headings of `rows`."""
        more = ["measured"] if self.data["measured_s"].notna().any() else []
        return [self.axis, "fastest simulated", "formula", "LogGP", "simulated", "lower bound", *more]

    @property
    def constants(self) -> str:
        """The figures that formulas and LogGP take, as a sentence."""
        each = quantity(self.beta_s_per_byte, "s")
        alpha = quantity(self.alpha_s, "s")
        return f"Formulas: α = {alpha}, β = {each} per byte. {self.loggp}; model {self.model}."

    def __str__(self) -> str:
        cells = [self.head, *self.rows()]
        wide = [max(len(row[i]) for row in cells) for i in range(len(self.head))]
        lines = [
            "  "
            + "  ".join(
                text.ljust(n) if i < 2 else text.rjust(n)
                for i, (text, n) in enumerate(zip(row, wide, strict=True))
            )
            for row in cells
        ]
        return "\n".join([self.reading, *(line.rstrip() for line in lines), self.constants])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [[markup.escape(cell) for cell in row] for row in self.rows()]
        inner = markup.escape(self.reading) + markup.table(self.head, rows) + markup.escape(self.constants)
        return markup.titled_block(markup.escape(self.title), inner)


# Predicted costs of each algorithm, by formula, LogGP and simulation, and what nothing undercuts.


#: who carried out a call that names no algorithm
LIBRARY = "library"
_WHOLE_SIZES = ("bytes", "n_bytes")


def measured_points(
    measured: object, operation: str, ranks: Sequence[int], sizes: Sequence[int]
) -> pd.DataFrame:
    """Return the median time of each algorithm at each of a card's points.

    `measured`: See `labkit.tuning.card`.
    `ranks`, `sizes`: The card's.
    Returns: ranks, bytes, algorithm, time_s.
    Raises DataError: It is something else, or holds none of the card's points.
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
            f"{type(measured).__name__}",
            code="wrong-type",
        )
    missing = [name for name in ("ranks", "bytes", "time_s") if name not in found]
    if missing:
        raise DataError(
            f"the measurements have no {missing[0]!r}; they have: {', '.join(map(str, found))}",
            code="missing-key",
        )
    if "algorithm" not in found:
        found = found.assign(algorithm=LIBRARY)
    here = found[found["ranks"].isin(ranks) & found["bytes"].isin(sizes)]
    if here.empty:
        what = f"{sorted(set(found['ranks']))} ranks and {sorted(set(found['bytes']))} bytes"
        raise DataError(
            f"the measurements of {operation} have no point of the card, which has {list(ranks)} ranks and "
            f"{list(sizes)} bytes; they have " + (what if len(found) else "no such call"),
            code="no-data",
        )
    groups = here.groupby(["ranks", "bytes", "algorithm"], sort=False)["time_s"]
    medians: pd.DataFrame = groups.median().reset_index()
    return medians


def _of_run(run: Run, operation: str) -> pd.DataFrame:
    """Every call of the collective by all ranks: from the last one's begin to the last one's end."""
    calls = None if run.trace is None else run.trace.calls
    if calls is None:
        raise DataError(
            f"{run.program} on {run.on} has no noted calls; run it with trace=True", code="not-recorded"
        )
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
    size = next((name for name in _WHOLE_SIZES if name in rows), None)
    if size is None:
        raise DataError(
            f"a study on a card must vary the parameter {' or '.join(_WHOLE_SIZES)}; this one has "
            f"{', '.join(map(str, study.data.columns))}",
            code="missing-key",
        )
    columns = ["ranks", size, "value", *(["algorithm"] if "algorithm" in rows else [])]
    found: pd.DataFrame = rows[columns].rename(columns={size: "bytes", "value": "time_s"})
    return found


COLUMNS = [
    "ranks",
    "bytes",
    "algorithm",
    "rounds",
    "volume_bytes",
    "formula_s",
    "loggp_s",
    "simulated_s",
    "measured_s",
    "bound_s",
]
#: the bound looks at every pair of ranks: of more ranks there is none
_MOST_BOUND = 256


class Predictions:
    """The predictions of one machine.

    `names`: Algorithms, as `labkit.tuning.tuned.candidates` returns them.
    `largest`: Bytes of the largest message.
    `alpha_s`, `beta_s_per_byte`: Of a message between two hosts: an empty one's time, and what each byte of
        the largest one adds.
    `loggp`: Fitted to round trips of 1 B to 32 kB between the same hosts.
    """

    def __init__(
        self, operation: str, machine: Platform, model: object, names: Sequence[str], largest: int
    ) -> None:
        self.operation, self.machine, self.names = operation, machine, list(names)
        self.network = machine.network(model)
        self._timed = SimulatedMachine(machine, self.network)
        pair = _two_hosts(machine)
        self.loggp = fit_loggp(measure_round_trips(pair, repeats=1, model=self.network))
        trips = measure_round_trips(pair, {0, largest}, messages=2, repeats=1, model=self.network)
        ways = trips[trips["messages"] == 1].set_index("bytes")["seconds"] / 2
        self.alpha_s = float(ways[0])
        self.beta_s_per_byte = float(ways[largest] - ways[0]) / largest if largest else 0.0
        self._ideal = models.get("loggps", **self.loggp.options())

    def table(self, ranks: Sequence[int], sizes: Sequence[int], points: pd.DataFrame | None) -> pd.DataFrame:
        """Return a row for each algorithm at each point where it can be used, with the columns of `COLUMNS`.

        `points`: Measured: ranks, bytes, algorithm, time_s. What is no algorithm of the card has its own
            rows.
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
    """Compare measured times with the predictions for the same algorithm at the same point."""
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
