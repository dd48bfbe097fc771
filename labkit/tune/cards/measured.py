"""Measured times of a collective, out of a run with a trace, a study, or a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from labkit.errors import DataError
from labkit.result import Run
from labkit.study import Study

__all__ = ["LIBRARY", "measured_points"]

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
            f"the measurements of {operation} hold no point of the card, which has {list(ranks)} ranks and "
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
            f"a study beside a card varies the parameter {' or '.join(_SIZES)}; this one has "
            f"{', '.join(map(str, study.data.columns))}"
        )
    columns = ["ranks", size, "value", *(["algorithm"] if "algorithm" in rows else [])]
    found: pd.DataFrame = rows[columns].rename(columns={size: "bytes", "value": "time_s"})
    return found
