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
