"""`labkit.calibrate`: measure, refine, fit, check."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from labkit.calibration.experiments import EXPERIMENTS, TAG, Plan, Row, grid, make_plan, measure_plan
from labkit.calibration.fit import (
    COLUMNS,
    ENVELOPE_BYTES,
    STATISTICS,
    Fit,
    Shares,
    fit_network,
    frame,
    medians,
)
from labkit.calibration.result import Calibration, judge_quality, load_average
from labkit.errors import DataError
from labkit.launch.run import machine_of, run
from labkit.machines.platform import Platform, platform
from labkit.result import Run

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["calibrate", "from_measurements", "with_shares"]


#: Links between two hosts of a star.
NEAR_LINKS = 2
#: How many times its own uncertainty a longer latency must be before it is believed.
_SURE = 2.0
#: Ratios that differ by less are alike.
_ALIKE = 1.05
#: The largest share that is believed: one that is done before the other begins did not meet it.
_MOST = 0.99


def checked_links(far_links: object) -> int:
    """Return the number of links of a far route, or refuse it."""
    if isinstance(far_links, bool) or not isinstance(far_links, int) or far_links <= NEAR_LINKS:
        raise DataError(
            f"far_links, the number of links from rank 0 to the far rank 2, must be more than {NEAR_LINKS}, "
            f"got {far_links!r}",
            code="out-of-range",
        )
    return far_links


def fit_shares(data: pd.DataFrame, fit: Fit, far_links: int, statistic: str = "median") -> Shares:
    """Find S and the far route's latency.

    `data`: Raw measurements with the experiments near, far and share.
    `fit`: Of the two near ranks.
    `far_links`: Links of the far rank's route.
    `statistic`: What stands for the repetitions of the round trips.
    Raises DataError: Nothing of the kind was measured, or the far route is no longer than the near one.
    """
    checked_links(far_links)
    rows = data[data["experiment"] == "share"]
    if rows.empty or not {"near", "far"} <= set(data["experiment"]):
        raise DataError(
            "no shares were measured: the experiments near, far and share are missing", code="no-data"
        )
    near, far = rows["sender_s"].to_numpy(float), rows["receiver_s"].to_numpy(float)
    # Whoever is done first had its share until then; the other had the link for itself afterwards.
    first, last = np.minimum(near, far), np.maximum(near, far)
    quicker = np.clip(last / (2 * first), 0.5, _MOST)
    ratios = np.where(near <= far, quicker / (1 - quicker), (1 - quicker) / quicker)
    ratio = float(np.median(ratios))
    latency = _longer(data, fit, statistic)
    weight, notes = _weight(ratio, fit, far_links, latency)
    return Shares(far_links, ratio, latency, weight, notes)


def _longer(data: pd.DataFrame, fit: Fit, statistic: str) -> float:
    """Find by how much the far route's latency is longer: small messages, the model's factor taken off."""
    times = data[data["experiment"].isin(["near", "far"])].groupby(["experiment", "bytes"])["sender_s"]
    summed = times.quantile(STATISTICS[statistic]).unstack("experiment")
    above, factor = np.asarray(fit.model.latency_factor, float).T
    at = factor[np.searchsorted(above, summed.index.to_numpy(float) + ENVELOPE_BYTES, side="left") - 1]
    more = (summed["far"] - summed["near"]).to_numpy(float) / at
    middle = float(np.median(more))
    doubt = 1.2533 * 1.4826 * float(np.median(np.abs(more - middle))) / np.sqrt(len(more))
    return middle if middle > _SURE * doubt else 0.0


def _weight(ratio: float, fit: Fit, far_links: int, longer_s: float) -> tuple[float, list[str]]:
    """Solve (lat + longer + far_links S / bw) = ratio (lat + 2 S / bw) for S."""
    lat, bandwidth = fit.latency_s, fit.bandwidth_bytes_per_s
    assumed = fit.model.weight_s_bytes
    by_latency, by_links = 1 + longer_s / lat, far_links / NEAR_LINKS
    low, high = min(by_latency, by_links), max(by_latency, by_links)
    if high < _ALIKE * low:
        return assumed, [
            f"the far route is {by_latency:.2f} times as long in time and {by_links:.2f} times in links: "
            "then a near rank gets as many times more whatever S is; S stays as assumed"
        ]
    if not low < ratio < high:
        edge = by_links if abs(ratio - by_links) < abs(ratio - by_latency) else by_latency
        weight = assumed if edge == by_links else 0.0
        said = f"S = {weight:g} B" + (", as assumed" if weight else "")
        is_near = edge / _ALIKE < ratio < edge * _ALIKE
        note = (
            f"a near rank got {ratio:.2f} times as much as a far one, and the model can only say "
            f"{by_latency:.2f} (by latencies alone) to {by_links:.2f} times (by links): {said}"
        )
        return weight, [] if is_near and not weight else [note]
    return bandwidth * lat * (ratio - by_latency) / (far_links - NEAR_LINKS * ratio), []


def measure_opposed(
    comm: Intracomm, sizes: tuple[int, ...], repeats: int, count: int, seed: int = 0
) -> dict[str, object]:
    """Measure what messages one way cost messages the other way, on their own connections.

    Ranks 0 and 2 are on one host, 1 and 3 on the other. ``alone`` times messages from rank 0 to rank 1,
    ``opposed`` the same while rank 3 sends as many to rank 2. An exchange of two ranks would not show it:
    the acknowledgements of one direction then travel with the messages of the other.
    """
    rank, peer = comm.Get_rank(), comm.Get_rank() ^ 1
    from labkit import MPI  # this rank's: mpi4py's or the simulated one

    clock: Callable[[], float] = MPI.Wtime
    buffer, token = np.ones(max(sizes), np.uint8), np.zeros(0, np.uint8)
    items = [(name, size) for name in ("alone", "opposed") for size in sizes]
    rows: list[Row] = []
    for number, name, size in _rounds(comm, items, repeats, seed):
        begin = clock()
        is_busy = rank < 2 or name == "opposed"
        for _ in range(count if is_busy else 0):
            if rank in (0, 3):
                comm.Send(buffer[:size], dest=peer, tag=TAG)
            else:
                comm.Recv(buffer[:size], source=peer, tag=TAG)
        if rank == 1:
            comm.Send(token, dest=0, tag=TAG)
        elif rank == 0:
            comm.Recv(token, source=1, tag=TAG)
            if number >= 0:
                rows.append((name, size, number, (clock() - begin) / count, 0.0, 0.0))
    return {"rows": rows}


def measure_shares(
    comm: Intracomm, sizes: tuple[int, ...], nbytes: int, repeats: int, count: int = 2, seed: int = 0
) -> dict[str, object]:
    """Measure how a link is shared by messages from near and from far.

    Rank 1 is near to rank 0, rank 2 is far from it. ``near`` and ``far`` are halves of round trips of small
    messages; ``share`` lets both send to rank 0 together, and notes when the last message of each is there.
    """
    bench = _Shares(comm, max(nbytes, *sizes), count)
    items = [(name, size) for name in ("near", "far") for size in sizes] + [("share", nbytes)]
    rows: list[Row] = []
    for number, name, size in _rounds(comm, items, repeats, seed):
        near_s, far_s = bench.share(size) if name == "share" else bench.trip(name, size)
        if number >= 0:
            rows.append((name, size, number, near_s, far_s, 0.0))
    return {"rows": rows} if comm.Get_rank() == 0 else {}


def _rounds(
    comm: Intracomm, items: Sequence[tuple[str, int]], repeats: int, seed: int
) -> Iterator[tuple[int, str, int]]:
    """Yield every item once a round, each behind a barrier, in an order of the round's own.

    Round -1 comes first and warms up.
    """
    rng = np.random.default_rng(seed)
    for number in range(-1, repeats):
        for index in rng.permutation(len(items)):
            comm.Barrier()
            yield number, *items[index]


class _Shares:
    """One rank's side of `measure_shares`: seconds are rank 0's."""

    def __init__(self, comm: Intracomm, most: int, count: int) -> None:
        self.comm, self.rank, self.count = comm, comm.Get_rank(), count
        self.out, self.token = np.ones(most, np.uint8), np.zeros(0, np.uint8)
        self.into = np.ones((2 * count, most), np.uint8)
        from labkit import MPI  # this rank's: mpi4py's or the simulated one

        self.clock: Callable[[], float] = MPI.Wtime

    def trip(self, name: str, size: int) -> tuple[float, float]:
        """Half a round trip between rank 0 and the near or the far rank."""
        partner = 1 if name == "near" else 2
        out, into = self.out[:size], self.into[0, :size]
        if self.rank == 0:
            self.comm.Recv(self.token, source=partner, tag=TAG)  # it has left the barrier, too
        begin = self.clock()
        if self.rank == 0:
            self.comm.Send(out, dest=partner, tag=TAG)
            self.comm.Recv(into, source=partner, tag=TAG)
        elif self.rank == partner:
            self.comm.Send(self.token, dest=0, tag=TAG)
            self.comm.Recv(into, source=0, tag=TAG)
            self.comm.Send(out, dest=0, tag=TAG)
        return float(self.clock() - begin) / 2, 0.0

    def share(self, size: int) -> tuple[float, float]:
        """Receive from both concurrently; return when each was done."""
        if self.rank != 0:
            self.comm.Recv(self.token, source=0, tag=TAG)
            sends = [self.comm.Isend(self.out[:size], dest=0, tag=TAG) for _ in range(self.count)]
            for send in sends:
                send.Wait()
            return 0.0, 0.0
        receives = [
            self.comm.Irecv(self.into[slot, :size], source=1 + slot % 2, tag=TAG)
            for slot in range(2 * self.count)
        ]
        for partner in (1, 2):
            self.comm.Send(self.token, dest=partner, tag=TAG)
        begin, over = self.clock(), [0.0, 0.0]
        for _ in receives:
            slot = type(receives[0]).Waitany(receives)
            over[slot % 2] = float(self.clock() - begin)
        return over[0], over[1]


#: New sizes in each bracket of a break, and pieces with fewer points are looked at again.
_INSIDE, _FEW = 6, 8
#: Sizes of the round trips that separate two routes' latencies, and the largest of them in bytes.
_TRIPS, _SMALL = 12, 1024


def calibrate(
    on: object = "mpi",
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
    **options: object,
) -> Calibration:
    """Measure a machine's messages between two ranks and fit the simulator's network model to them.

    Ping-pong, sends to late and to early receivers, bursts and exchanges are measured at random sizes on a
    logarithmic axis, in an order that is shuffled again in every round; medians over the rounds are cut into
    straight pieces whose number and places are found, not given; then the neighborhood of every break is
    measured more finely. Last, the same experiments are simulated on the fitted machine: the residuals.

    Parameters
    ----------
    on : str, cluster or Platform
        As for `labkit.run`: real MPI, a cluster, or (for practice or tests) a simulated machine.
    name : str
        What to call the result.
    max_bytes : int
        Largest message.
    points : int
        Sizes measured at first.
    repeats : int
        Measurements of each experiment and size.
    refine : int
        How many times the neighborhood of the breaks is measured again.
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
        which others work, which can only delay messages, the quickest repetition measures the network.
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
        raise DataError(f"pairs must be 1 or 2, got {pairs!r}", code="out-of-range")
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
        found,
        on,
        far_links=far_links,
        repeats=repeats,
        seed=seed,
        statistic=statistic,
        timeout_s=timeout_s,
        **options,
    )


def with_shares(
    found: Calibration,
    on: object = "mpi",
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
    """Return the same calibration with the weights that the data determine."""
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
        Its `quality` is the noise of the measurements themselves, without the host's load.

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
            raise DataError(
                f"{path!r} is not a readable table of measurements: {error}", code="malformed-file"
            ) from None
    missing = [column for column in COLUMNS if column not in data.columns]
    if missing:
        raise DataError(
            f"measurements have the columns {', '.join(COLUMNS)}; missing: {', '.join(missing)}",
            code="missing-key",
        )
    table = medians(data, statistic)
    fit = fit_network(table, name, tolerance)
    quality = judge_quality(data, table, 0, 0.0, None, is_valid=True)
    residuals = _residuals(table, fit, repeats=3, window=window)
    found = Calibration(name, fit, data, residuals, quality, dict(machine or {}), hosts)
    return found if far_links is None else _shared(found, data, far_links, statistic)


def _check_statistic(statistic: str) -> None:
    if statistic not in STATISTICS:
        raise DataError(
            f"statistic must be one of {', '.join(STATISTICS)}, got {statistic!r}", code="unknown-name"
        )


def _measure(
    on: object, plan: Plan, timeout_s: float | None, options: dict[str, Any]
) -> tuple[Run, pd.DataFrame]:
    done = run(measure_plan, 2, on, args=(plan,), timeout_s=timeout_s, seed=plan.seed, **options)
    return done, frame(done.results[0]["rows"])


def _opposed(
    on: object, plan: Plan, max_bytes: int, timeout_s: float | None, options: dict[str, Any]
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
    again = run(measure_plan, 2, machine, args=(plan,), model=fit.model, timeout_s=None)
    predicted = medians(frame(again.results[0]["rows"])).set_index(["experiment", "bytes"])["sender_s"]
    wanted = table[table["experiment"].isin(["pingpong", "window", "exchange"])]
    measured = wanted.set_index(["experiment", "bytes"])["sender_s"]
    out = pd.DataFrame({"measured_s": measured, "predicted_s": predicted.reindex(measured.index)})
    out["error"] = out["predicted_s"] / out["measured_s"] - 1
    return out.reset_index()
