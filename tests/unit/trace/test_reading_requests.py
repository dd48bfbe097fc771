"""Nonblocking sends and receives written as OTF2 has them, and read back with their wait states."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk

otf2 = pytest.importorskip("otf2")

SIZE = 20_000  # a rendezvous: an Isend is complete when the receiver is there


def one_by_one(comm: Any) -> None:
    """Wait for each request apart; ranks 1 and 2 come late, as receiver and as sender."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for late in (1, 2):
        with lk.phase("work"):
            lk.compute(seconds=2e-3 * (comm.rank == late))
        with lk.phase("halo"):
            got = comm.Irecv(np.zeros(SIZE), left, 2)
            sent = comm.Isend(np.zeros(SIZE), right, 2)
            small = comm.Isend(np.zeros(1), right, 3)  # nobody waits for it
            got.Wait()
            sent.Wait()
            comm.Recv(np.zeros(1), left, 3)
            small.Wait()


def together(comm: Any) -> None:
    for _ in range(3):
        lk.compute(seconds=1e-3 * (1 + (comm.rank == 2)))
        buffer = np.zeros(SIZE)
        requests = [comm.Irecv(buffer, (comm.rank - 1) % comm.size)]
        requests.append(comm.Isend(np.zeros(SIZE), (comm.rank + 1) % comm.size))
        lk.MPI.Request.Waitall(requests)


def persistent(comm: Any) -> None:
    requests = [comm.Recv_init(np.zeros(SIZE), (comm.rank - 1) % comm.size)]
    requests.append(comm.Send_init(np.zeros(SIZE), (comm.rank + 1) % comm.size))
    for _ in range(3):
        lk.compute(seconds=1e-3 * (1 + (comm.rank == 2)))
        lk.MPI.Prequest.Startall(requests)
        lk.MPI.Request.Waitall(requests)


def events_in(path: Path) -> Counter[str]:
    with otf2.reader.open(str(path / "traces.otf2")) as archive:
        return Counter(type(event).__name__ for _, event in archive.events)


def by(run: Any, names: list[str], value: str, least_s: float) -> dict[Any, Any]:
    table = run.waits().severity(*names)
    return dict(table[table["seconds"] > least_s].set_index(names)[value].items())


@pytest.mark.parametrize("ranks", [4, 7])
def test_waits_for_single_requests_come_back_with_their_times_and_costs(ranks: int, tmp_path: Path) -> None:
    run = lk.run(one_by_one, ranks, f"torus:{ranks}", trace=True)
    run.export(tmp_path / "run.otf2")
    found = events_in(tmp_path / "run.otf2")
    assert found["MpiIsend"] == found["MpiIsendComplete"] == 4 * ranks
    assert found["MpiIrecvRequest"] == found["MpiIrecv"] == found["MpiSend"] + found["MpiRecv"] == 2 * ranks
    back = lk.read_trace(tmp_path / "run.otf2")
    meant = by(run, ["state", "rank"], "seconds", 0.5e-3)
    assert {state for state, _ in meant} == {"late sender", "late receiver"}
    assert by(back, ["state", "rank"], "seconds", 0.5e-3) == pytest.approx(meant, rel=0.02)
    costs = [one.waits().causes("rank", "phase").iloc[:2] for one in (run, back)]
    first, second = (dict(zip(one["rank"], one["cost_s"], strict=True)) for one in costs)
    assert second == pytest.approx(first, rel=0.02)


@pytest.mark.parametrize("program", [together, persistent])
def test_late_receivers_are_found_where_several_requests_are_waited_for(program: Any, tmp_path: Path) -> None:
    run = lk.run(program, 7, "torus:7", trace=True)
    run.export(tmp_path / "run.otf2")
    found = events_in(tmp_path / "run.otf2")
    assert found["MpiIsend"] == found["MpiIsendComplete"] == 21
    assert found["MpiIrecvRequest"] == found["MpiIrecv"] == 21
    back = lk.read_trace(tmp_path / "run.otf2")
    meant = by(run, ["state", "rank"], "count", 0.5e-3)
    assert {state for state, _ in meant} == {"late sender", "late receiver"}
    assert by(back, ["state", "rank"], "count", 0.5e-3) == meant
    assert back.waits().causes("rank").iloc[0]["rank"] == 2


def halo(comm: Any, size: int, is_overlapped: bool) -> None:
    """Two neighbors, four requests; who computes in between gets most before it waits."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(4):
        got = np.zeros((2, size))
        if not is_overlapped:
            lk.compute(seconds=1e-4 * (1 + (7 * comm.rank + step) % 5))
        requests = [comm.Irecv(got[0], left, 1), comm.Irecv(got[1], right, 2)]
        requests += [comm.Isend(np.zeros(size), right, 1), comm.Isend(np.zeros(size), left, 2)]
        if is_overlapped:
            lk.compute(seconds=1e-4 * (1 + (7 * comm.rank + step) % 5))
        lk.MPI.Request.Waitall(requests)


def read_back(run: Any, folder: Path) -> Any:
    run.export(folder / "run.otf2")
    return lk.read_trace(folder / "run.otf2")


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_a_wait_for_several_requests_comes_back(ranks: int, tmp_path: Path) -> None:
    """What a rank waits for first in a call comes back to the nanosecond; behind a transfer no more does."""
    run = lk.run(halo, ranks, f"star:{ranks}", trace=True, size=100_000, is_overlapped=False)
    back = read_back(run, tmp_path)
    columns = ["rank", "begin_s", "end_s", "state", "cause"]
    waits = [one.waits().waits for one in (run, back)]
    meant, found = (one[one["seconds"] > 1e-8] for one in waits)
    held = run.trace.waits[["rank", "message", "begin_s"]].rename(columns={"begin_s": "held_s"})
    first = meant.merge(held, on=["rank", "message"])
    first = first[np.isclose(first["begin_s"], first["held_s"], rtol=0, atol=1e-9)]
    assert len(first) >= ranks
    rows = {(int(r), round(b, 8), round(e, 8), s, int(c)) for r, b, e, s, c in found[columns].to_numpy()}
    for rank, begin_s, end_s, state, cause in first[columns].to_numpy():
        assert (int(rank), round(begin_s, 8), round(end_s, 8), state, int(cause)) in rows
    for rank in range(ranks):
        told, known = (float(one.loc[one["rank"] == rank, "seconds"].sum()) for one in (found, meant))
        assert told <= known + 1e-7


@pytest.mark.parametrize("size", [1, 1000, 100_000])
@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_receives_that_are_over_before_their_wait_come_back(ranks: int, size: int, tmp_path: Path) -> None:
    run = lk.run(halo, ranks, f"star:{ranks}", trace=True, size=size, is_overlapped=True)
    back = read_back(run, tmp_path)
    found = events_in(tmp_path / "run.otf2")
    assert found["MpiIrecvRequest"] == found["MpiIrecv"] == found["MpiIsend"] == 8 * ranks
    assert found["MpiRecv"] == found["MpiSend"] == 0
    assert back.notes == []
    order = ["destination", "source", "tag", "recv_posted_s", "bytes"]
    meant, got = (one.trace.messages.sort_values(order)[order].to_numpy() for one in (run, back))
    assert got == pytest.approx(meant, abs=1e-8)


def singly(comm: Any) -> None:
    """Each request has a wait of its own, and all are over before."""
    if comm.rank == 0:
        requests = [comm.Irecv(np.zeros(1), 1, tag) for tag in range(3)]
        lk.compute(seconds=1e-3)
        for request in requests:
            request.Wait()
        comm.Recv(np.zeros(1), 1, 3)
    else:
        for tag in range(4):
            comm.Send(np.zeros(1), 0, tag)


def test_each_wait_for_one_request_ends_one(tmp_path: Path) -> None:
    run = lk.run(singly, 2, "star:2", trace=True)
    run.export(tmp_path / "run.otf2")
    inside: list[str] = []
    within = []
    with otf2.reader.open(str(tmp_path / "run.otf2" / "traces.otf2")) as archive:
        for location, event in archive.events:
            if location.name != "rank 0":
                continue
            kind = type(event).__name__
            if kind == "Enter":
                inside.append(event.region.name)
                within.append([event.region.name])
            elif kind == "Leave":
                inside.pop()
            elif inside:
                within[-1].append(kind)
    calls = [one for one in within if one[0] in ("Irecv", "Wait", "Recv")]
    irecv, wait = ["Irecv", "MpiIrecvRequest"], ["Wait", "MpiIrecv"]
    assert calls == [irecv, irecv, irecv, wait, wait, wait, ["Recv", "MpiRecv"]]
