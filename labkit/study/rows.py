"""Rows of measurements: one table for every machine, and how a run becomes rows of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from labkit.errors import DataError
from labkit.program.rank_counts import metrics_of

if TYPE_CHECKING:
    from labkit.result import Run

__all__ = [
    "FIXED",
    "HOST_METRICS",
    "MEASURED",
    "PLACE",
    "SEED",
    "cell",
    "how_counted",
    "parameter_columns",
    "run_rows",
    "tidy",
    "unit_of",
]

#: columns before and after those of the parameters
FIXED = ("program", "on", "model")
#: where a batch job ran: neither parameters nor measured, and only in studies that have such runs
PLACE = ("on_cluster", "on_partition", "on_nodes")
#: what a repetition's random numbers were drawn from; only in studies that know it
SEED = "seed"
MEASURED = ("repetition", "metric", "phase", "value", "unit", "is_valid")

#: metrics that another version of Python or NumPy may change
HOST_METRICS = ("rank_memory_bytes",)

_UNITS = {"_s": "s", "_bytes": "B", "bytes": "B", "_bytes_per_s": "B/s", "_flops": "flop"}
#: as tables of other programs name their units: "time [s]"
_IN_BRACKETS = re.compile(
    r"\S\s*[\[(]((?:[mnuµμ]?s|min|h|(?:[kKMGT]i?)?(?:B|bit|[Ff]lops?)(?:/s)?|[kKMG]?(?:J|W|Hz)|%))[\])]$"
)


def unit_of(metric: str) -> str:
    """Return the unit that a metric's name ends with: "s" of ``makespan_s`` and ``time [s]``; empty: none."""
    if bracketed := _IN_BRACKETS.search(metric):
        return bracketed[1]
    endings = sorted((e for e in _UNITS if metric.endswith(e)), key=len)
    return _UNITS[endings[-1]] if endings else ""


def parameter_columns(data: pd.DataFrame) -> list[str]:
    """Return the columns that hold parameters: ``ranks`` and the program's own."""
    return [str(c) for c in data.columns if c not in {*FIXED, *PLACE, SEED, *MEASURED}]


def cell(value: object) -> Any:
    """Return a parameter's value as a cell: numbers and texts unchanged, the rest by name."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return getattr(value, "__name__", None) or repr(value)


def run_rows(
    run: Run,
    parameters: Mapping[str, object],
    repetition: int = 0,
    measured: Mapping[str, float] | None = None,
) -> list[dict[str, object]]:
    """Return the measurements of one run.

    Parameters
    ----------
    run : Run
        The run.
    parameters : mapping
        The program's parameters.
    repetition : int
        Which repetition it was.
    measured : mapping, optional
        Further metrics, by name.

    Returns
    -------
    list of dict
        A row for the makespan, for each phase (the longest time a rank spent in it), for messages and bytes
        where the machine counts them, and for what else was counted, in all and in each phase. Where
        computation was measured, ``computation_s``: what the rank that computed longest is charged.
    """
    base = {"program": run.program, "on": run.on, "model": run.model or "", "ranks": run.ranks, **parameters}
    if run.machine.get("kind") == "slurm":
        base |= {column: run.machine.get(column.removeprefix("on_")) for column in PLACE}

    seed = getattr(run, "seed", None)
    seeded = {} if seed is None else {SEED: seed}

    def row(metric: str, value: float, phase: str = "", is_valid: bool = True) -> dict[str, Any]:
        return {
            **base,
            **seeded,
            "repetition": repetition,
            "metric": metric,
            "phase": phase,
            "value": float(value),
            "unit": unit_of(metric),
            "is_valid": is_valid,
        }

    is_valid = bool(run.is_valid)
    rows = [row("makespan_s", run.makespan_s, is_valid=is_valid)]
    rows += [row("phase_s", seconds, name, is_valid) for name, seconds in phase_seconds(run.phases)]
    computation = getattr(run, "computation", None)
    if computation is not None:
        rows.append(row("computation_s", float(computation.rank_seconds.max())))
    counts = getattr(run, "counts", None)  # a runner of the caller's own gives what it gives
    counted = [] if counts is None else metrics_of(counts)
    known = {name for name, phase, _ in counted if not phase}
    totals = [("messages", run.messages), ("bytes", run.bytes)]
    rows += [row(name, value) for name, value in totals if value is not None and name not in known]
    rows += [row(name, value, phase) for name, phase, value in counted]  # whoever shares the cores
    rows += [row(name, value, is_valid=is_valid) for name, value in (measured or {}).items()]
    return rows


def how_counted(rows: list[dict[str, object]], is_real: bool) -> str | None:
    """Return the source of the counts in a run's rows, or None."""
    metrics = {row["metric"] for row in rows}
    if "rank_memory_bytes" not in metrics:
        return None
    memory = "rank_memory_bytes is the most that the NumPy arrays of a rank held"
    if not is_real:
        return f"counted by the simulator in every run; {memory}"
    text = f"counted in the warm-up, which the recorder of MPI calls watched; {memory}"
    if "rank_resident_bytes" in metrics:
        text += ", rank_resident_bytes how much the memory of its process grew (VmHWM)"
    if "collectives" in metrics:
        text += "; p2p_: the program's own messages, for those inside a collective are the MPI library's"
    return text


def phase_seconds(phases: pd.DataFrame) -> list[tuple[str, float]]:
    """Return each phase with the longest time a rank spent in it, in the order of their beginning."""
    if not len(phases):
        return []
    spent = (phases["end_s"] - phases["begin_s"]).groupby([phases["phase"], phases["rank"]]).sum()
    longest = spent.groupby(level=0).max()
    first = phases.groupby("phase")["begin_s"].min().sort_values(kind="stable")
    return [(str(name), float(longest[name])) for name in first.index]


def tidy(rows: Iterable[Mapping[Any, Any]]) -> pd.DataFrame:
    """Return rows as a data frame with the columns in their order."""
    data = pd.DataFrame(list(rows))
    if data.empty:
        raise DataError(
            "a study holds at least one measurement, a row with metric and value; this one has no rows",
            code="no-data",
        )
    missing = [c for c in ("metric", "value") if c not in data.columns]
    if missing:
        raise DataError(
            f"measurements need the columns metric and value; missing: {', '.join(missing)}",
            code="missing-key",
        )
    defaults: dict[str, Any] = {
        "program": "",
        "on": "",
        "model": "",
        "repetition": 0,
        "phase": "",
        "is_valid": True,
    }
    for column, value in defaults.items():
        if column not in data.columns:
            data[column] = value
    if "unit" not in data.columns:
        data["unit"] = [unit_of(str(m)) for m in data["metric"]]
    parameters = parameter_columns(data)
    if "ranks" in parameters:
        parameters = ["ranks", *(c for c in parameters if c != "ranks")]
    place = [column for column in PLACE if column in data.columns]
    if SEED in data.columns:
        place.append(SEED)
        if pd.api.types.is_numeric_dtype(data[SEED]) and data[SEED].notna().all():
            data[SEED] = data[SEED].astype("int64")
    return data[[*FIXED, *parameters, *place, *MEASURED]].reset_index(drop=True)
