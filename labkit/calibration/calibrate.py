"""`labkit.calibrate`: measure, refine, fit, check."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from labkit.calibration.crowds import measure_opposed, measure_shares
from labkit.calibration.experiments import measure
from labkit.calibration.fit import ENVELOPE_BYTES, Fit, fit_network
from labkit.calibration.plan import EXPERIMENTS, Plan, grid, make_plan
from labkit.calibration.protocol import COLUMNS, STATISTICS, frame, medians
from labkit.calibration.quality import judge_quality, load_average
from labkit.calibration.result import Calibration
from labkit.calibration.shares import checked_links, fit_shares
from labkit.errors import DataError
from labkit.platform.platform import Platform, platform
from labkit.result import Run
from labkit.run import machine_of, run

__all__ = ["calibrate", "from_measurements", "with_shares"]

#: New sizes in each bracket of a break, and pieces with fewer points are looked at again.
_INSIDE, _FEW = 6, 8
#: Sizes of the round trips that tell two routes' latencies apart, and the largest of them in bytes.
_TRIPS, _SMALL = 12, 1024


def calibrate(
    on: Any = "mpi",
    *,
    name: str = "calibrated",
    max_bytes: int = 4_000_000,
    points: int = 60,
    repeats: int = 7,
    refine: int = 2,
    window: int = 8,
    pairs: int = 1,
    far_links: int | None = None,
    hosts: int = 2,
    seed: int = 0,
    tolerance: float = 1e-3,
    statistic: str = "median",
    timeout_s: float | None = 300.0,
    **options: Any,
) -> Calibration:
    """Measure a machine's messages between two ranks and fit the simulator's network model to them.

    Ping-pong, sends to late and to early receivers, bursts and exchanges are measured at random sizes on a
    logarithmic axis, in an order that is shuffled anew in every round; medians over the rounds are cut into
    straight pieces whose number and places are found, not given; then the neighbourhood of every break is
    measured more finely. Last, the same experiments are simulated on the fitted machine: the residuals.

    Parameters
    ----------
    on : str, cluster or Platform
        As for `labkit.run`: real MPI, a cluster, or (to learn, or to test) a simulated machine.
    name : str
        What to call the result.
    max_bytes : int
        Largest message.
    points : int
        Sizes measured at first.
    repeats : int
        Measurements of each experiment and size.
    refine : int
        How often the neighbourhood of the breaks is measured again.
    window : int
        Messages of a burst.
    pairs : int
        1, or 2: then four ranks are started once more, to see what messages one way cost messages the other
        way on other connections. Ranks 2 and 3 must be placed where 0 and 1 are.
    far_links : int, optional
        Then three ranks are started once more, to see how a link is shared by messages from near and from
        far: the number of links between rank 0 and rank 2, which must be placed farther away than rank 1 is.
        See `with_shares`, which does this afterwards, on another machine if need be.
    hosts : int
        Hosts of the star that is written.
    seed : int
        Of the sizes and the order.
    tolerance : float
        Relative deviation that is not worth a break.
    statistic : str
        What stands for the repetitions: ``"median"``, ``"quartile"`` (the first), or ``"min"``: on a host on
        which others work, which can only delay messages, the quickest repetition tells of the network.
    timeout_s : float or None
        Limit of host time of each of the ``1 + refine`` launches.
    **options
        Further options of `labkit.run`, such as ``mpi=`` or, for a simulated machine, ``model=``.

    Returns
    -------
    Calibration

    Raises
    ------
    DataError
        A plan that makes no sense.
    MachineError, PlatformError, RankError, TimeLimitError
        As from `labkit.run`.

    Examples
    --------
    >>> import labkit as lk
    >>> found = lk.calibrate("star:2,bw=1GBps,lat=10us", model="raw", points=20, repeats=3, refine=0)
    >>> round(found.fit.bandwidth_bytes_per_s / 1e9, 2), found.model.detached_below_bytes
    (1.0, 65536)
    """
    plan = make_plan(max_bytes, points=points, repeats=repeats, window=window, seed=seed)
    if pairs not in (1, 2):
        raise DataError(f"pairs must be 1 or 2, got {pairs!r}")
    if far_links is not None:
        checked_links(far_links)
    _check_statistic(statistic)
    is_real = machine_of(on).is_real
    load = load_average() if is_real else None
    began = time.monotonic()
    runs, tables = [], []
    for step in range(refine + 1):
        one, rows = _measure(on, plan, timeout_s, options)
        rows["round"] += step * repeats
        runs.append(one)
        tables.append(rows)
        data = pd.concat(tables, ignore_index=True)
        table = medians(data, statistic)
        fit = fit_network(table, name, tolerance)
        if step < refine:
            plan = _refined(plan, fit, np.random.default_rng([seed, step + 1]))
    if pairs == 2:
        data = pd.concat([data, _opposed(on, plan, max_bytes, timeout_s, options)], ignore_index=True)
        table = medians(data, statistic)
    machine = {**runs[0].machine, "on": on if isinstance(on, str) else repr(on), "ranks": 2}
    found = from_measurements(
        data, name=name, hosts=hosts, window=window, tolerance=tolerance, statistic=statistic, machine=machine
    )
    switches = sum(int(one.results[0]["switches"]) for one in runs)
    is_valid = all(one.is_valid for one in runs)
    found.quality = judge_quality(data, table, switches, time.monotonic() - began, load, is_valid)
    if far_links is None:
        return found
    return with_shares(
        found, on, far_links=far_links, repeats=repeats, seed=seed, statistic=statistic, timeout_s=timeout_s,
        **options,
    )  # fmt: skip


def with_shares(
    found: Calibration,
    on: Any = "mpi",
    *,
    far_links: int,
    repeats: int = 7,
    seed: int = 0,
    statistic: str = "median",
    timeout_s: float | None = 300.0,
    **options: Any,
) -> Calibration:
    """Add to a calibration how flows from near and from far share a link.

    Parameters
    ----------
    found : Calibration
        Of two hosts.
    on, seed, statistic, timeout_s, **options
        As for `calibrate`; three ranks are started: ranks 0 and 1 on hosts as near as those that were
        calibrated, rank 2 on one farther away.
    far_links : int
        Links between rank 0 and rank 2, more than 2.
    repeats : int
        Rounds.

    Returns
    -------
    Calibration
        A new one: weight S measured instead of assumed, `Fit.shares`, three more experiments in its data.

    Raises
    ------
    DataError
        `far_links` is no number above 2, or `statistic` not known.
    MachineError, PlatformError, RankError, TimeLimitError
        As from `labkit.run`.

    Examples
    --------
    >>> import labkit as lk
    >>> found = lk.calibrate("star:2,bw=1GBps,lat=10us", model="raw", points=20, repeats=3, refine=0)
    >>> far = "fattree:2x2:1x1:1x1,bw=1GBps,lat=10us"
    >>> round(lk.calibration.with_shares(found, far, far_links=4, model="raw").fit.shares.ratio, 1)
    2.0
    """
    checked_links(far_links)
    _check_statistic(statistic)
    largest = int(found.data["bytes"].max())
    first_break = min((piece.above for piece in found.fit.curves["wire"].pieces[1:]), default=_SMALL)
    small = tuple(sorted({int(size) for size in np.geomspace(1, max(min(first_break, _SMALL), 2), _TRIPS)}))
    args = (small, largest, repeats, 2, seed)
    done = run(measure_shares, 3, on, args=args, timeout_s=timeout_s, seed=seed, **options)
    data = pd.concat([found.data, frame(done.results[0]["rows"])], ignore_index=True)
    return _shared(found, data, far_links, statistic)


def _shared(found: Calibration, data: pd.DataFrame, far_links: int, statistic: str) -> Calibration:
    """Return the same calibration with the weights that the data tell."""
    shares = fit_shares(data, found.fit, far_links, statistic)
    model = replace(found.fit.model, weight_s_bytes=shares.weight_s_bytes)
    fit = replace(found.fit, model=model, shares=shares, notes=[*found.fit.notes, *shares.notes])
    return replace(found, fit=fit, data=data)


def from_measurements(
    data: pd.DataFrame | str | os.PathLike[str],
    *,
    name: str = "calibrated",
    hosts: int = 2,
    window: int = 8,
    tolerance: float = 1e-3,
    statistic: str = "median",
    far_links: int | None = None,
    machine: dict[str, Any] | None = None,
) -> Calibration:
    """Fit the model to measurements that were made before: without a machine.

    Parameters
    ----------
    data : pandas.DataFrame or path
        `Calibration.data`, or the file ``NAME.measurements.csv`` that `Calibration.save` wrote.
    name, hosts, window, tolerance, statistic
        As for `calibrate`; `window` must be that of the measurements.
    far_links : int, optional
        As for `calibrate`, if three ranks were measured as well; without it their measurements are left out.
    machine : dict, optional
        Where it was measured.

    Returns
    -------
    Calibration
        Its `quality` knows what the measurements themselves tell of noise: not the host's load.

    Raises
    ------
    DataError
        Not a table of measurements.
    """
    if not isinstance(data, pd.DataFrame):
        path = os.fspath(data)
        try:
            data = pd.read_csv(path)
        except (OSError, ValueError) as error:
            raise DataError(f"{path!r} is not a readable table of measurements: {error}") from None
    missing = [column for column in COLUMNS if column not in data.columns]
    if missing:
        raise DataError(f"measurements have the columns {', '.join(COLUMNS)}; missing: {', '.join(missing)}")
    table = medians(data, statistic)
    fit = fit_network(table, name, tolerance)
    quality = judge_quality(data, table, 0, 0.0, None, is_valid=True)
    residuals = _residuals(table, fit, repeats=3, window=window)
    found = Calibration(name, fit, data, residuals, quality, dict(machine or {}), hosts)
    return found if far_links is None else _shared(found, data, far_links, statistic)


def _check_statistic(statistic: str) -> None:
    if statistic not in STATISTICS:
        raise DataError(f"statistic must be one of {', '.join(STATISTICS)}, got {statistic!r}")


def _measure(
    on: Any, plan: Plan, timeout_s: float | None, options: dict[str, Any]
) -> tuple[Run, pd.DataFrame]:
    done = run(measure, 2, on, args=(plan,), timeout_s=timeout_s, seed=plan.seed, **options)
    return done, frame(done.results[0]["rows"])


def _opposed(
    on: Any, plan: Plan, max_bytes: int, timeout_s: float | None, options: dict[str, Any]
) -> pd.DataFrame:
    sizes = (max_bytes // 2, max_bytes)
    args = (sizes, plan.repeats, plan.window, plan.seed)
    done = run(measure_opposed, 4, on, args=args, timeout_s=timeout_s, seed=plan.seed, **options)
    return frame(done.results[0]["rows"])


def _refined(plan: Plan, fit: Fit, rng: np.random.Generator) -> Plan:
    """Choose new sizes: inside the brackets of all breaks, and where a piece has few points."""
    most = max(plan.sizes)
    brackets = [t.bracket for t in (fit.detached, fit.eager)]
    for curve_name, curve in fit.curves.items():
        shift = ENVELOPE_BYTES if curve_name == "wire" else 0
        brackets += [(int(a) - shift, int(b) - shift) for a, b in curve.breakpoints]
        brackets += [
            (int(piece.first_x) - shift, int(piece.last_x) - shift)
            for piece in curve.pieces
            if piece.points < _FEW
        ]
    sizes: set[int] = set()
    for low, high in {(max(low, 1), min(high, most)) for low, high in brackets}:
        if high - low > 1:
            sizes.update(size for size in grid(low, high, _INSIDE, rng) if low < size < high)
    return plan.at(tuple(sorted(sizes)) or plan.sizes[:8], tuple(EXPERIMENTS))


def _residuals(table: pd.DataFrame, fit: Fit, repeats: int, window: int) -> pd.DataFrame:
    """Repeat the experiments on the fitted machine, simulated, and compare."""
    sizes: Sequence[int] = sorted({int(size) for size in table["bytes"]})
    plan = Plan(tuple(sizes), repeats, window=window)
    machine: Platform = platform(f"star:2,{fit.spec}")
    again = run(measure, 2, machine, args=(plan,), model=fit.model, timeout_s=None)
    predicted = medians(frame(again.results[0]["rows"])).set_index(["experiment", "bytes"])["sender_s"]
    wanted = table[table["experiment"].isin(["pingpong", "window", "exchange"])]
    measured = wanted.set_index(["experiment", "bytes"])["sender_s"]
    out = pd.DataFrame({"measured_s": measured, "predicted_s": predicted.reindex(measured.index)})
    out["error"] = out["predicted_s"] / out["measured_s"] - 1
    return out.reset_index()
