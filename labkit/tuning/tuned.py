"""The result of tuning: times, the best algorithm everywhere, a decision tree, and what selectors lose."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from labkit import registry
from labkit.errors import DataError, SuggestsNames
from labkit.machines import platform
from labkit.plot_backend import draw
from labkit.selector import Rules, Situation, selector_of
from labkit.selector.formats import mpich, open_mpi, pgmpi, smpi
from labkit.selector.formats.bands import Band, SizeBand, rows_of
from labkit.selector.libraries import library_names, names_table
from labkit.selector.situation import without_bytes
from labkit.sim.schedules import node_of, time_alone
from labkit.study.reporting.rules import listed
from labkit.text import html as markup
from labkit.text.files import replace_file
from labkit.text.units import format_bytes, format_share
from labkit.tuning.real_machine import RealMachine

__all__ = ["COLUMNS", "Leaf", "SimulatedMachine", "Tuned", "grow", "measure_algorithms"]

COLUMNS = ["operation", "ranks", "bytes", "algorithm", "time_s"]


class SimulatedMachine:
    """A simulated machine that algorithms are timed on, alone.

    `model`: Network model.
    `mapping`: Hosts of the ranks, as in `labkit.run`.
    """

    how = "tuned by simulation"

    def __init__(self, on: object, model: object = None, mapping: Any = None) -> None:
        self.platform = platform(on).mapped(mapping)
        self.model = model
        self.network = self.platform.network(model)

    @property
    def name(self) -> str:
        """What sentences call it."""
        return self.platform.spec

    def node(self, ranks: int) -> int:
        """Return how many consecutive ranks share a host."""
        return node_of(self.platform.rank_hosts(ranks))

    def situation(self, operation: str, ranks: int, n_bytes: int) -> Situation:
        """Return what a choice may depend on here."""
        return Situation(
            *(operation, ranks, n_bytes),
            machine=self.platform.spec,
            ranks_per_node=self.node(ranks),
            copied_below_bytes=self.network.copied_below_bytes,
            on_collective_network=self.has_network_for(operation),
        )

    def has_network_for(self, operation: str) -> bool:
        """Return whether the machine has its own network for an operation."""
        return any(row[0] == operation for row in self.network.collective_network)

    def time(self, at: Situation, name: str) -> float:
        """Simulate one call, all ranks entering together; seconds until the last one has left."""
        return time_alone(self.platform, self.model, self.node(at.ranks), at, name)


def measure_algorithms(
    machine: SimulatedMachine,
    operation: str,
    points: Sequence[tuple[int, int]],
    names: Sequence[str],
    tick: Any = None,
) -> pd.DataFrame:
    """Time every algorithm at every point where it can be used.

    `points`: Ranks and bytes: the message of a bcast, reduction or scan, one block of the others.
    `tick`: Called after every point.
    Returns: A row for each measurement, with the columns of `COLUMNS`.
    """
    rows = []
    for ranks, n_bytes in points:
        at = machine.situation(operation, ranks, n_bytes)
        for name in names:
            algorithm = registry.get(operation, without_bytes(operation, name))
            if not algorithm.requirements.unmet(ranks, True):
                rows.append((operation, ranks, n_bytes, name, machine.time(at, name)))
        if tick is not None:
            tick()
    return pd.DataFrame(rows, columns=COLUMNS)


_FORMS = (
    ".toml or .json (labkit's own), .conf or .ompi.json (Open MPI's), .mpich.json (MPICH's), .prf (a folder "
    "of PGMPITuneLib's profiles) or .cfg (SMPI's flags)"
)


# A decision tree over ranks and bytes: which algorithm to take, and what that loses against the best one.
#
# A leaf takes the algorithm with the least mean penalty over its points, t / t_best - 1. The leaf whose best
# split saves most is split next, at a number of ranks or a size between two that were measured, until
# there are
# enough leaves or nothing is saved any more.
#
# Source: J. Pjesivac-Grbovic, G. Bosilca, G. E. Fagg, T. Angskun, J. J. Dongarra: Decision trees and MPI
# collective algorithm selection problem. Euro-Par 2007. doi:10.1007/978-3-540-74466-5_13

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Leaf:
    """A region of ranks and bytes, and what is taken there.

    `ranks`, `bytes`: From, and below.
    `penalty`: Sum over the region's points of t / t_best - 1.
    """

    ranks: tuple[float, float]
    bytes: tuple[float, float]
    algorithm: str
    penalty: float
    points: int

    def holds(self, ranks: float, n_bytes: float) -> bool:
        """Whether the region has the point."""
        return self.ranks[0] <= ranks < self.ranks[1] and self.bytes[0] <= n_bytes < self.bytes[1]


class _Grid:
    """The penalties as a matrix, points x algorithms: infinite where an algorithm cannot be used."""

    def __init__(self, times: pd.DataFrame) -> None:
        wide = times.pivot_table(index=["ranks", "bytes"], columns="algorithm", values="time_s", sort=False)
        wide = wide[
            sorted(wide.columns, key=lambda name: (":" in str(name), str(name)))
        ]  # of equals the simplest
        values = wide.to_numpy(np.float64)
        best = np.nanmin(values, axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            loss = np.where(best > 0, values / best - 1, 0.0)  # one rank: all take 0 s
        self.loss: Floats = np.where(np.isnan(values), inf, loss)
        self.names = [str(name) for name in wide.columns]
        points = np.array(wide.index.to_list(), np.float64).reshape(-1, 2)
        self.at: Floats = points

    def leaf(self, ranks: tuple[float, float], sizes: tuple[float, float]) -> Leaf | None:
        """Return the leaf of a region; None where it has no point, or no algorithm for all its points."""
        p, n = self.at.T
        inside = (ranks[0] <= p) & (p < ranks[1]) & (sizes[0] <= n) & (n < sizes[1])
        if not inside.any():
            return None
        sums = self.loss[inside].sum(axis=0)
        best = int(np.argmin(sums))
        if not np.isfinite(sums[best]):
            return None
        return Leaf(ranks, sizes, self.names[best], float(sums[best]), int(inside.sum()))

    def halves(self, leaf: Leaf) -> Iterator[tuple[Leaf, Leaf]]:
        """Yield the ways to split a leaf in two."""
        p, n = self.at.T
        for values, bounds, name in ((p, leaf.ranks, "ranks"), (n, leaf.bytes, "bytes")):
            known = np.unique(values[(bounds[0] <= values) & (values < bounds[1])])
            for below, above in itertools.pairwise(known):
                at = _between(below, above)
                sides = [(bounds[0], at), (at, bounds[1])]
                both = [
                    self.leaf(*((side, leaf.bytes) if name == "ranks" else (leaf.ranks, side)))
                    for side in sides
                ]
                if both[0] is not None and both[1] is not None:
                    yield both[0], both[1]


def grow(times: pd.DataFrame, leaves: int) -> list[Leaf]:
    """Return the leaves of a tree.

    `times`: With the columns ranks, bytes, algorithm and time_s.
    `leaves`: Maximum number.
    """
    grid = _Grid(times)
    whole = grid.leaf((0, inf), (0, inf))
    if whole is None:  # no algorithm for all points: begin with the numbers of ranks apart
        starts = sorted({float(p) for p in grid.at[:, 0]})
        edges = [0, *(_between(a, b) for a, b in itertools.pairwise(starts)), inf]
        found = [grid.leaf((a, b), (0, inf)) for a, b in itertools.pairwise(edges)]
        tree = [leaf for leaf in found if leaf is not None]
    else:
        tree = [whole]
    splits = {leaf: _best_split(grid, leaf) for leaf in tree}
    while len(tree) < leaves:
        # what gains nothing by one split may gain by the next one, so the worst leaf is split even then
        worth = {
            leaf: (_gain(leaf, pair), leaf.penalty)
            for leaf, pair in splits.items()
            if pair and leaf.penalty > 0
        }
        chosen = max(worth, key=lambda leaf: worth[leaf], default=None)
        if chosen is None:
            break
        pair = splits.pop(chosen)
        assert pair is not None
        tree.remove(chosen)
        tree += pair
        splits |= {leaf: _best_split(grid, leaf) for leaf in pair}
    return _joined(_joined(tree, "bytes"), "ranks")


def _gain(leaf: Leaf, pair: tuple[Leaf, Leaf]) -> float:
    return leaf.penalty - pair[0].penalty - pair[1].penalty


def _best_split(grid: _Grid, leaf: Leaf) -> tuple[Leaf, Leaf] | None:
    return min(grid.halves(leaf), key=lambda pair: pair[0].penalty + pair[1].penalty, default=None)


def _joined(leaves: list[Leaf], along: str) -> list[Leaf]:
    """Join neighbors along ranks or bytes that take the same; sort by ranks, then bytes."""
    across = "ranks" if along == "bytes" else "bytes"
    found: list[Leaf] = []
    for leaf in sorted(leaves, key=lambda leaf: (getattr(leaf, across), getattr(leaf, along))):
        last = found[-1] if found else None
        low, high = getattr(leaf, along)
        if (
            last is not None
            and last.algorithm == leaf.algorithm
            and getattr(last, across) == getattr(leaf, across)
            and getattr(last, along)[1] == low
        ):
            whole = (getattr(last, along)[0], high)
            ranks, sizes = (whole, last.bytes) if along == "ranks" else (last.ranks, whole)
            penalty, points = last.penalty + leaf.penalty, last.points + leaf.points
            found[-1] = Leaf(ranks, sizes, leaf.algorithm, penalty, points)
        else:
            found.append(leaf)
    return sorted(found, key=lambda leaf: (leaf.ranks, leaf.bytes))


def _between(below: float, above: float) -> float:
    """Return the geometric mean, whole: the first value that belongs to the upper side."""
    return float(min(max(ceil(sqrt(max(below, 1) * above)), below + 1), above))


def write_rules(
    path: Path,
    operation: str,
    tree: Sequence[Leaf],
    rows: Sequence[Mapping[str, object]],
    title: str,
    times: pd.DataFrame,
) -> Path:
    """Write a tree in the form that the file's ending sets; see `labkit.tune.Tuned.save`."""
    ranks = sorted({int(p) for p in times["ranks"]})
    texts: dict[Path, str]
    if path.suffix == ".prf":
        profiles = pgmpi.write(operation, _bands(tree, ranks), ranks, title)
        texts = {path / f"{operation}_{p}.prf": text for p, text in profiles.items()}
    else:
        texts = {path: _text(path, operation, tree, rows, title, times, ranks)}
    try:
        if path.suffix == ".prf":
            path.mkdir(exist_ok=True)
        for file, text in texts.items():
            replace_file(file, text)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}", code="unwritable-file") from error
    return path


def _text(
    path: Path,
    operation: str,
    tree: Sequence[Leaf],
    rows: Sequence[Mapping[str, object]],
    title: str,
    times: pd.DataFrame,
    ranks: Sequence[int],
) -> str:
    if path.name.endswith(".mpich.json"):
        library_names("mpich", operation)
        return mpich.write(operation, _bands(tree, ranks))
    if path.suffix == ".conf" or path.name.endswith(".ompi.json"):
        library_names("ompi", operation)
        is_all = names_table("ompi")[operation].get("counts_all")
        bands = _bands(tree, ranks if is_all else ())
        by_size = names_table("ompi")[operation].get("by_size", True)
        if not by_size and any(len(band.steps) > 1 for band in bands):
            raise DataError(
                f"Open MPI's ranks do not agree on the size of a {operation}, and would wait forever where "
                "it decides: tune for one size",
                code="unsupported",
            )
        return (open_mpi.write_classic if path.suffix == ".conf" else open_mpi.write_json)(
            operation, bands, title
        )
    if path.suffix == ".cfg":
        return smpi.write(operation, *_one_for_all(operation, tree, times), title)
    if path.suffix == ".json":
        return json.dumps({"title": title, "rules": list(rows)}, indent=1) + "\n"
    if path.suffix == ".toml":
        body = "".join(
            f"  {{ {', '.join(f'{k} = {json.dumps(v)}' for k, v in row.items())} }},\n" for row in rows
        )
        return f"title = {json.dumps(title)}\n\nrules = [\n{body}]\n"
    raise DataError(f"{path.name}: rules can be written as {_FORMS}", code="unknown-format")


def _bands(tree: Sequence[Leaf], ranks: Sequence[int]) -> list[Band]:
    """Return a tree as bands from 1 rank on: one for each number of ranks at which something changes."""
    starts = sorted({1, *ranks, *(int(leaf.ranks[0]) for leaf in tree if leaf.ranks[0] > 0)})
    bands = []
    for low, high in zip(starts, [*starts[1:], inf], strict=True):
        here = [leaf for leaf in tree if leaf.ranks[0] <= low < leaf.ranks[1]]
        steps = [SizeBand(*leaf.bytes, leaf.algorithm) for leaf in sorted(here, key=lambda leaf: leaf.bytes)]
        bands.append(Band(low, high, steps or [SizeBand(0, inf, None)]))
    return bands


def _one_for_all(operation: str, tree: Sequence[Leaf], times: pd.DataFrame) -> tuple[str, str]:
    """Return the algorithm that loses least if used everywhere, and a sentence on the loss."""
    known = library_names("smpi", operation)
    wide = times.pivot_table(index=["ranks", "bytes"], columns="algorithm", values="time_s")
    best = wide.min(axis=1)
    wide = wide[[name for name in wide.columns if name in known]].dropna(axis=1)
    if wide.empty:
        raise DataError(
            f"none of SMPI's algorithms for {operation} was measured at all points: tune with "
            "library='smpi', or with fewer numbers of ranks",
            code="no-data",
        )
    lost = wide.div(best.where(best > 0, 1.0), axis=0).sub(1).where(best > 0, 0.0)
    name = str(lost.mean().idxmin())
    mean, most = float(lost[name].mean()), float(lost[name].max())
    leaves = len({leaf.algorithm for leaf in tree})
    return name, (
        f"one algorithm for all ranks and bytes, where the decision tree takes {leaves}: on average "
        f"{format_share(mean)} slower than the fastest at each point, at most {format_share(most)}"
    )


#: times that differ by no more, relatively, differ by rounding
_ROUNDING = 1e-9

#: behind a name in the table that stands for several; and up to this number of points all names are listed
_EQUAL, _MOST_TOLD = "=", 3


@dataclass(frozen=True)
class Tuned(SuggestsNames):
    """A tuned collective on one machine.

    `times`: A row for each measurement: operation, ranks, bytes, algorithm, time_s; on a real machine the
        median, with its interval in low_s and high_s.
    `leaves`: Maximum number of leaves of the decision tree.
    """

    operation: str
    machine: SimulatedMachine | RealMachine
    times: pd.DataFrame
    leaves: int = 25

    @cached_property
    def best(self) -> pd.DataFrame:
        """The fastest algorithm at each point: ranks, bytes, algorithm, time_s; of equals the simplest."""
        fastest = self._fastest.drop_duplicates(["ranks", "bytes"])
        return fastest.drop(columns=["operation", "is_set"]).reset_index(drop=True)

    @cached_property
    def equals(self) -> pd.DataFrame:
        """All that are as fast as the best at each point: ranks, bytes, algorithms (a list, best first)."""
        names = self._fastest.groupby(["ranks", "bytes"], sort=True)["algorithm"].agg(list)
        return names.rename("algorithms").reset_index()

    @cached_property
    def _fastest(self) -> pd.DataFrame:
        """The rows of the fastest algorithms, several at a point where only rounding is between them."""
        least = self.times.groupby(["ranks", "bytes"])["time_s"].transform("min")
        fastest = self.times[self.times["time_s"] <= least * (1 + _ROUNDING)]
        if "low_s" in self.times:  # measured: whose interval begins below the end of the fastest one's
            ends = fastest.groupby(["ranks", "bytes"])["high_s"].max().rename("end_s").reset_index()
            beside = self.times.merge(ends, on=["ranks", "bytes"])
            fastest = beside[beside["low_s"] <= beside["end_s"]].drop(columns="end_s")
            return fastest.assign(is_set=False).sort_values(["ranks", "bytes", "time_s"])
        fastest = fastest.assign(is_set=fastest["algorithm"].str.contains(":"))
        return fastest.sort_values(["ranks", "bytes", "is_set", "algorithm"])

    @cached_property
    def tree(self) -> list[Leaf]:
        """The decision tree's leaves."""
        return grow(self.times, self.leaves)

    @cached_property
    def rules(self) -> Rules:
        """The tree as a selector: ``coll=tuned.rules`` in a run."""
        return Rules(self._rows, f"tuned {self.operation} on {self.machine.name}")

    @property
    def _rows(self) -> list[dict[str, Any]]:
        bands = (Band(*leaf.ranks, [SizeBand(*leaf.bytes, leaf.algorithm)]) for leaf in self.tree)
        return rows_of(self.operation, bands)

    def losses(self, selector: object = None) -> pd.DataFrame:
        """Return what a selector takes at each point, and what that loses against the best algorithm.

        `selector`: As `coll` of `labkit.run`; None: the tree.
        Returns: ranks, bytes, algorithm, time_s, and loss: t / t_best - 1.
        """
        choose = selector_of(self.rules if selector is None else selector).on(self.machine.time)
        known = self.times.set_index(["ranks", "bytes", "algorithm"])["time_s"].to_dict()
        rows = []
        points = self.best[["ranks", "bytes", "time_s"]].to_numpy(np.float64)
        for ranks, n_bytes, best_s in points:
            at = self.machine.situation(self.operation, int(ranks), int(n_bytes))
            name = choose.choose(at)
            assert name is not None  # the defaults always have one
            taken_s = known.get((at.ranks, at.n_bytes, name))
            taken_s = self.machine.time(at, name) if taken_s is None else taken_s
            loss = taken_s / best_s - 1 if best_s > 0 else 0.0
            rows.append((at.ranks, int(at.n_bytes), name, taken_s, loss))
        return pd.DataFrame(rows, columns=["ranks", "bytes", "algorithm", "time_s", "loss"])

    def penalty(self, selector: object = None) -> dict[str, float]:
        """Return what a selector (as in `losses`) loses over all points: ``mean`` and ``max`` of the loss."""
        lost = self.losses(selector)["loss"]
        return {"mean": float(lost.mean()), "max": float(lost.max())}

    def compare(self, selectors: Sequence[object] = ("default", "ompi", "mpich", "smpi")) -> pd.DataFrame:
        """Return the penalty of the tree and of selectors: a row for each, with mean and max.

        On a real machine the tree alone: other algorithms than the library's were not measured.
        """
        if isinstance(self.machine, RealMachine):
            selectors = ()
        rows = {"tree": self.penalty()} | {str(one): self.penalty(one) for one in selectors}
        return pd.DataFrame.from_dict(rows, orient="index")

    def to_dict(self) -> dict[str, Any]:
        """Return operation, machine, the best algorithm of each point, its equals, and the tree's rules."""
        return {
            "operation": self.operation,
            "on": self.machine.name,
            "best": [
                {**row, "equals": names[1:]}
                for row, names in zip(self.best.to_dict("records"), self.equals["algorithms"], strict=True)
            ],
            "rules": self._rows,
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the tree as a file of rules.

        Parameters
        ----------
        path : path
            Its ending sets the form; all of them are read again by ``--coll FILE``. ``.toml`` and ``.json``:
            labkit's own. Of libraries, where the algorithms were tuned with this `library`:

            - ``.conf``: Open MPI's dynamic rules
              (``--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename FILE``), and
              ``.ompi.json``, the same for Open MPI 6.0 and later;
            - ``.mpich.json``: MPICH's selection tree (``MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE=FILE
              MPIR_CVAR_DEVICE_COLLECTIVES=none``);
            - ``.prf``: a folder with a profile of PGMPITuneLib for each number of ranks (``--ppath=FOLDER``);
            - ``.cfg``: SMPI's flag for the one algorithm that loses least, and what it loses.

            Sizes that a library counts over all blocks are exact at the numbers of ranks that were tried.

        Raises
        ------
        DataError
            Another ending; an algorithm that the library has not; a file that cannot be written.
        """
        return write_rules(Path(path), self.operation, self.tree, self._rows, self._title(), self.times)

    def plot(self, **options: object) -> Any:
        """Draw the regions: `labkit.plot.regions`, which takes the options."""
        return draw("regions", self, **options)

    def _title(self) -> str:
        return f"{self.operation} on {self.machine.name}, {self.machine.how}"

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [f"{self._title()}: the fastest of {self.times['algorithm'].nunique()} algorithms"]
        lines += [f"  {line}" for line in self._table().to_string().splitlines()]
        if equal := self._equal():
            lines.append(f"  {_EQUAL} {equal}")
        lines.append(f"decision tree: {self._reading()}")
        lines += [f"  {', '.join(_bounds(leaf)):<40} {leaf.algorithm}" for leaf in self.tree]
        return "\n".join(lines)

    def _table(self) -> pd.DataFrame:
        marks = [f" {_EQUAL}" if len(_told(names)) > 1 else "" for names in self.equals["algorithms"]]
        marked = self.best.assign(algorithm=self.best["algorithm"] + marks)
        wide = marked.pivot(index="ranks", columns="bytes", values="algorithm")
        wide.columns = pd.Index([format_bytes(float(str(n))) for n in wide.columns])
        wide.index = pd.Index([f"p = {p}" for p in wide.index])
        return wide

    def _repr_html_(self) -> str:
        head = ["ranks", "bytes", "take"]
        rows = [[*map(markup.escape, _bounds(leaf)), markup.escape(leaf.algorithm)] for leaf in self.tree]
        reading = " ".join([self._reading(), self._equal()]).strip()
        return markup.titled_block(
            markup.escape(self._title()), markup.escape(reading) + markup.table(head, rows)
        )

    def _equal(self) -> str:
        """Return as text where a name stands for several; nothing where none does."""
        columns = (self.equals[name].tolist() for name in ("ranks", "bytes", "algorithms"))
        points = [(p, n, _told(names)) for p, n, names in zip(*columns, strict=True)]
        several = [point for point in points if len(point[2]) > 1]
        if not several:
            return ""
        places = [f"{p} ranks, {format_bytes(n)}: {listed(names, 4)}" for p, n, names in several]
        some = "; ".join(places[:_MOST_TOLD]) + "; ..." * (len(places) > _MOST_TOLD)
        return (
            f"at {len(several)} of {len(points)} points several are equally fast, of which the first by name "
            f"is shown: {some}"
        )

    def _reading(self) -> str:
        lost, leaves = self.penalty(), len(self.tree)
        return (
            f"{leaves} {'leaf' if leaves == 1 else 'leaves'}, on average {_share(lost['mean'])} "
            f"slower (at most {_share(lost['max'])}) than the fastest of {self.times['algorithm'].nunique()} "
            f"algorithms at each of {len(self.best)} points."
        )


def _told(names: Sequence[str]) -> list[str]:
    """Leave out what is an algorithm of the same list with other parameters."""
    first = {name.partition(":")[0]: name for name in reversed(names)}
    return [name for name in names if name in first.values()]


def _share(share: float) -> str:
    return "0%" if share < 5e-5 else format_share(share)


def _bounds(leaf: Leaf) -> list[str]:
    """Write a region: its ranks and its bytes."""
    ranks = _range(leaf.ranks, lambda n: f"{n:.0f}", "ranks")
    return [ranks, _range(leaf.bytes, format_bytes, "sizes")]


def _range(bounds: tuple[float, float], write: Callable[[float], str], what: str) -> str:
    low, high = bounds
    if low <= 0 and high == inf:
        return f"all {what}"
    if high == inf:
        return f"{write(low)} or more" + (" ranks" if what == "ranks" else "")
    below = f"below {write(high)}" if low <= 0 else f"{write(low)} to below {write(high)}"
    return below + (" ranks" if what == "ranks" else "")
