"""Archives read back: what labkit has written as OTF2, and calls as Score-P records them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError

otf2 = pytest.importorskip("otf2")


def program(comm: Any, spend: Any) -> None:
    rank, p = comm.rank, comm.size
    x, y = np.zeros(100), np.zeros(100)
    with lk.phase("ring"):
        spend(2e-3 * (rank == 1))
        requests = [comm.Irecv(y, (rank - 1) % p, 3), comm.Isend(x, (rank + 1) % p, 3)]
        lk.MPI.Request.Waitall(requests)
    with lk.phase("meet"):
        with lk.phase("inner"):
            spend(3e-3 * (rank == 2))
        comm.Allreduce(x, y)
        comm.Bcast(x, root=2)
        half = comm.Split(rank % 2, rank)
        half.Barrier()
        half.Reduce(x, y, root=1)
    if rank == 0:
        comm.Ssend(x[:7], 1, tag=5)
    elif rank == 1:
        comm.Recv(x, 0, tag=5)


def charge(seconds: float) -> None:
    lk.compute(seconds=seconds)


def envelopes(run: Any) -> list[tuple[int, ...]]:
    table = run.trace.messages
    if run.trace.clocks is None:  # the messages of collectives are not in an archive's calls
        table = table[table["context"] % 2 == 0]
    return sorted(zip(*(table[n].tolist() for n in ("source", "destination", "tag", "bytes")), strict=True))


def rows(table: Any, names: list[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].tolist() for name in names), strict=True))


@pytest.mark.parametrize("on", ["star:4", pytest.param("mpi", marks=pytest.mark.mpi)])
def test_a_run_comes_back_from_its_archive(on: str, tmp_path: Path) -> None:
    run = lk.run(program, 4, on, trace=True, args=(time.sleep if on == "mpi" else charge,))
    run.export(tmp_path / "run.otf2")
    back = lk.read_trace(tmp_path / "run.otf2")
    assert lk.read_trace(tmp_path / "run.otf2" / "traces.otf2").makespan_s == back.makespan_s
    assert (back.program, back.ranks, back.notes) == ("run", 4, [])
    assert back.makespan_s == pytest.approx(run.makespan_s, abs=1e-8)
    assert envelopes(back) == envelopes(run)
    calls, read = run.trace.calls, back.trace.calls
    assert rows(read, ["rank", "call", "phase", "position"]) == rows(
        calls, ["rank", "call", "phase", "position"]
    )
    for name in ("begin_s", "end_s"):
        assert np.abs(read[name].to_numpy() - calls[name].to_numpy()).max() < 1e-8
    joined = calls["joint"].to_numpy() >= 0
    assert (read["bytes"].to_numpy()[joined] == calls["bytes"].to_numpy()[joined]).all()
    assert (read["root"].to_numpy()[joined] == calls["root"].to_numpy()[joined]).all()
    assert sorted(back.phases["phase"]) == sorted(run.phases["phase"])
    if on != "mpi":  # a busy host may make other ranks wait for other reasons
        found, meant = (one.waits().severity("state").set_index("state")["seconds"] for one in (back, run))
        for state in ("wait at nxn", "late sender"):
            assert found[state] == pytest.approx(meant[state], rel=0.02)
        first = back.waits().causes("rank", "phase").iloc[0]
        assert (first["rank"], first["phase"]) == (2, "meet > inner")
    assert "its times are those of the file" in repr(back.trace)
    with pytest.raises(DataError, match="real machine"):
        back.what_if("inner", 0.5)


def begun(comm: Any, spend: Any) -> None:
    x, y = np.zeros(100), np.zeros(100)
    first, second = comm.Ibarrier(), comm.Iallreduce(x, y)
    comm.Bcast(np.zeros(1))  # between the begin and the end of others
    spend(2e-3 * (comm.rank == 1))
    second.Wait()
    first.Wait()
    with lk.phase("described"):
        request = comm.Allreduce_init(x, y)
        spend(3e-3 * (comm.rank == 2))
        request.Start()
        request.Wait()
    spend(4e-3 * (comm.rank == 0))
    lk.MPI.Request.Waitall([comm.Ibarrier()])


@pytest.mark.parametrize("on", ["star:3", pytest.param("mpi", marks=pytest.mark.mpi)])
def test_begun_collectives_come_back(on: str, tmp_path: Path) -> None:
    run = lk.run(begun, 3, on, trace=True, args=(time.sleep if on == "mpi" else charge,))
    run.export(tmp_path / "run.otf2")
    back = lk.read_trace(tmp_path / "run.otf2")
    assert back.notes == []
    names = ["rank", "call", "phase", "position", "root", "bytes"]
    assert rows(back.trace.calls, names) == rows(run.trace.calls, names)
    joined = run.trace.calls["joint"].to_numpy() >= 0
    assert ((back.trace.calls["joint"].to_numpy() >= 0) == joined).all()
    assert joined.sum() >= 3 * 5
    if on != "mpi":
        sums = [one.waits().severity("state", "call", "rank") for one in (back, run)]
        found, meant = (one.set_index(["state", "call", "rank"])["seconds"] for one in sums)
        long = meant[meant > 1e-3]
        assert {state for state, _, _ in long.index} == {"wait at nxn", "wait at barrier"}
        assert found[long.index].to_numpy() == pytest.approx(long.to_numpy(), rel=0.02)


def test_what_an_archive_does_not_say_is_a_note(tmp_path: Path) -> None:
    with otf2.writer.open(str(tmp_path / "a"), timer_resolution=1_000_000) as archive:
        known = archive.definitions
        group = known.location_group("rank 0", system_tree_parent=known.system_tree_node("cluster"))
        place, how = known.location("rank 0", group=group), {"paradigm": otf2.Paradigm.MPI}
        known.group("", group_type=otf2.GroupType.COMM_LOCATIONS, members=[place], **how)
        own = archive.event_writer_from_location(place)
        for when, name in enumerate(("MPI_Ibarrier", "MPI_Wait")):
            region = known.region(name, **how)
            own.enter(10 * when, region)
            own.leave(10 * when + 5, region)
    said = lk.read_trace(tmp_path / "a").notes
    assert said[0].split(":")[:2] == ["trace", " 1 call begins a nonblocking or persistent collective"]


def test_calls_as_score_p_records_them(tmp_path: Path) -> None:
    """Requests with their numbers; functions around; a thread that is no rank; a wildcard receive."""
    with otf2.writer.open(str(tmp_path / "a"), timer_resolution=1_000_000) as archive:
        known = archive.definitions
        root = known.system_tree_node("cluster")
        groups = [known.location_group(f"MPI Rank {rank}", system_tree_parent=root) for rank in range(2)]
        places = [known.location("Master thread", group=group) for group in groups]
        thread = known.location("OMP thread 1", group=groups[0])
        how = {"paradigm": otf2.Paradigm.MPI}
        known.group("", group_type=otf2.GroupType.COMM_LOCATIONS, members=places, **how)
        # the communicator turns the ranks around
        turned = known.group("", group_type=otf2.GroupType.COMM_GROUP, members=[places[1], places[0]], **how)
        comm = known.comm("turned", turned)
        isend, irecv, wait = (known.region(f"MPI_{name}", **how) for name in ("Isend", "Irecv", "Wait"))
        solve = known.region("solve", paradigm=otf2.Paradigm.COMPILER)
        own = [archive.event_writer_from_location(place) for place in (*places, thread)]

        def inside(rank: int, region: Any, begin: int, end: int, note: Any = None) -> None:
            own[rank].enter(begin, region)
            if note is not None:
                note(own[rank])
            own[rank].leave(end, region)

        own[0].enter(100, solve)
        inside(0, irecv, 100, 110, lambda to: to.mpi_irecv_request(105, 7))
        inside(0, wait, 200, 1300, lambda to: to.mpi_irecv(1300, 0, comm, 3, 64, 7))
        own[0].leave(1400, solve)
        inside(1, isend, 1200, 1210, lambda to: to.mpi_isend(1205, 1, comm, 3, 64, 9))
        inside(1, wait, 1210, 1220, lambda to: to.mpi_isend_complete(1220, 9))
        inside(2, solve, 100, 200)
    run = lk.read_trace(tmp_path / "a")
    assert run.on == "cluster"
    assert envelopes(run) == [(1, 0, 3, 64)]
    assert run.trace.calls["call"].tolist() == ["Irecv", "Wait", "Isend", "Wait"]
    assert rows(run.phases, ["rank", "phase"]) == [(0, "solve")]
    waits = run.waits().waits
    assert rows(waits, ["rank", "state", "cause"]) == [(0, "late sender", 1)]
    assert waits["seconds"].iloc[0] == pytest.approx(1e-3)
    assert run.notes == ["trace: 2 events of locations that are no ranks of MPI are left out"]


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        lk.read_trace(tmp_path)
    (tmp_path / "t.paje").write_text("x")
    with pytest.raises(DataError, match="are read as OTF2"):
        lk.read_trace(tmp_path / "t.paje")
    (tmp_path / "traces.otf2").write_text("x")
    with pytest.raises(DataError, match="cannot be read"):
        lk.read_trace(tmp_path)
