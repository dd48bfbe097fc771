"""OTF2 records: every kind is used, noted or documented; those that Score-P writes for rarer calls."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit.errors import DataError
from labkit.trace.exchange import otf2_reader

otf2 = pytest.importorskip("otf2")

MPI = {"paradigm": otf2.Paradigm.MPI}
READERS = Path(__file__).resolve().parents[3] / "docs" / "readers.md"


@contextmanager
def archive_of(path: Path, ranks: int) -> Iterator[tuple[Any, Any, list[Any], Callable[..., None]]]:
    """An archive to write: its definitions, places, writers, and a function that writes a call."""
    with otf2.writer.open(str(path), timer_resolution=1_000_000) as archive:
        known = archive.definitions
        root = known.system_tree_node("cluster")
        groups = [known.location_group(f"MPI Rank {rank}", system_tree_parent=root) for rank in range(ranks)]
        places = [known.location("Master thread", group=group) for group in groups]
        known.group("", group_type=otf2.GroupType.COMM_LOCATIONS, members=places, **MPI)
        own = [archive.event_writer_from_location(place) for place in places]

        def inside(rank: int, name: str, begin: int, end: int, *notes: Callable[[Any, int], None]) -> None:
            own[rank].enter(begin, known.region(f"MPI_{name}", **MPI))
            for note in notes:
                note(own[rank], end)
            own[rank].leave(end, known.region(f"MPI_{name}", **MPI))

        yield known, places, own, inside


def group_of(known: Any, places: list[Any], name: str = "") -> Any:
    return known.group(name, group_type=otf2.GroupType.COMM_GROUP, members=places, **MPI)


def test_every_kind_of_record_is_used_or_documented() -> None:
    text = READERS.read_text()
    base = (otf2.events._Event, otf2.definitions._Definition)
    kinds = {
        name
        for module in (otf2.events, otf2.definitions)
        for name, one in vars(module).items()
        if inspect.isclass(one) and issubclass(one, base) and not name.startswith("_")
    }
    used = {one.__name__ for one in otf2_reader._Reading(otf2, {}, True).handlers}
    assert len(kinds) > 100
    assert not {one for one in kinds - used if f"`{one}`" not in text}


def test_a_matched_probe_receives_its_message(tmp_path: Path) -> None:
    with archive_of(tmp_path / "a", 2) as (known, places, _, inside):
        comm = known.comm("world", group_of(known, places))
        for tag, size in ((3, 64), (4, 8)):
            inside(
                0,
                "Send",
                10 * tag,
                10 * tag + 5,
                lambda to, at, t=tag, n=size: to.mpi_send(at, 1, comm, t, n),
            )
        inside(1, "Mprobe", 100, 110, lambda to, at: to.mpi_probe(at, 0, comm, 3, 77))
        inside(1, "Mrecv", 120, 130, lambda to, at: to.mpi_mrecv(at, 77, 64))
        inside(1, "Improbe", 140, 150, lambda to, at: to.mpi_probe(at, 0, comm, 4, 78))
        inside(1, "Imrecv", 160, 170, lambda to, at: to.mpi_imrecv_request(at, 78, 9))
        inside(1, "Wait", 180, 190, lambda to, at: to.mpi_imrecv(at, 9, 8))
    run = lk.read_trace(tmp_path / "a")
    assert run.notes == []
    found = run.trace.messages.sort_values("tag")[["source", "destination", "tag", "bytes"]]
    assert found.to_numpy().tolist() == [[0, 1, 3, 64], [0, 1, 4, 8]]


def test_a_matched_receive_without_its_probe_is_refused(tmp_path: Path) -> None:
    with archive_of(tmp_path / "a", 1) as (_, _, _, inside):
        inside(0, "Mrecv", 120, 130, lambda to, at: to.mpi_mrecv(at, 77, 64))
    with pytest.raises(DataError, match="rank 0 receives message 77"):
        lk.read_trace(tmp_path / "a")


def test_regions_of_calling_contexts_are_regions(tmp_path: Path) -> None:
    with archive_of(tmp_path / "a", 2) as (known, places, own, _):
        comm = known.comm("world", group_of(known, places))
        solve, barrier = known.region("solve"), known.region("MPI_Barrier", **MPI)
        line = known.source_code_location("a.c", 1)
        above = known.calling_context(solve, line, None)
        below = known.calling_context(barrier, line, above)
        for writer in own:
            writer.calling_context_enter(10, above, 1)
            writer.calling_context_enter(20, below, 1)
            writer.mpi_collective_end(30, otf2.CollectiveOp.BARRIER, comm, 0xFFFFFFFF, 0, 0)
            writer.calling_context_leave(30, below)
            writer.calling_context_leave(40, above)
    run = lk.read_trace(tmp_path / "a")
    assert run.notes == []
    assert run.trace.calls[["call", "phase", "joint"]].to_numpy().tolist() == [["Barrier", "solve", 0]] * 2
    assert run.phases["phase"].tolist() == ["solve"] * 2


def test_the_communicator_of_a_rank_alone_has_no_members_in_the_archive(tmp_path: Path) -> None:
    with archive_of(tmp_path / "a", 2) as (known, _, _, inside):
        alone = known.comm("self", known.group("", group_type=otf2.GroupType.COMM_SELF, members=[], **MPI))
        for rank in range(2):
            inside(rank, "Isend", 10, 20, lambda to, at: to.mpi_isend(at, 0, alone, 1, 8, 5))
            inside(rank, "Recv", 30, 40, lambda to, at: to.mpi_recv(at, 0, alone, 1, 8))
            inside(rank, "Wait", 50, 60, lambda to, at: to.mpi_isend_complete(at, 5))
            end = (otf2.CollectiveOp.BARRIER, alone, 0xFFFFFFFF, 0, 0)
            inside(rank, "Barrier", 70, 80, lambda to, at, end=end: to.mpi_collective_end(at, *end))
    run = lk.read_trace(tmp_path / "a")
    found = run.trace.messages[["source", "destination", "tag", "bytes"]]
    assert sorted(found.to_numpy().tolist()) == [[0, 0, 1, 8], [1, 1, 1, 8]]
    joint = run.trace.calls[run.trace.calls["call"] == "Barrier"]["joint"].tolist()
    assert len(set(joint)) == 2


def test_peers_of_two_groups_are_ranks_of_the_other(tmp_path: Path) -> None:
    with archive_of(tmp_path / "a", 3) as (known, places, _, inside):
        low, high = group_of(known, places[:1], "low"), group_of(known, places[1:], "high")
        otf2_reader._repair(otf2.definitions.InterComm)
        comm = known.inter_comm("two", groupA=low, groupB=high)
        inside(0, "Send", 10, 20, lambda to, at: to.mpi_send(at, 1, comm, 3, 64))
        inside(2, "Recv", 15, 25, lambda to, at: to.mpi_recv(at, 0, comm, 3, 64))
        for rank in range(3):
            end = (otf2.CollectiveOp.BARRIER, comm, 0xFFFFFFFF, 0, 0)
            inside(rank, "Barrier", 70, 80 + rank, lambda to, at, end=end: to.mpi_collective_end(at, *end))
    run = lk.read_trace(tmp_path / "a")
    assert run.trace.messages[["source", "destination"]].to_numpy().tolist() == [[0, 2]]
    joined = run.trace.calls[run.trace.calls["call"] == "Barrier"]
    assert joined["joint"].tolist() == [0] * 3
    assert joined["position"].tolist() == [0, 1, 2]


def test_a_rank_that_the_communicator_lacks_is_refused(tmp_path: Path) -> None:
    with archive_of(tmp_path / "a", 2) as (known, places, _, inside):
        comm = known.comm("world", group_of(known, places))
        inside(0, "Send", 10, 20, lambda to, at: to.mpi_send(at, 5, comm, 3, 64))
    with pytest.raises(DataError, match=r"rank 0 has a message with rank 5 .*'world', which has 2 ranks"):
        lk.read_trace(tmp_path / "a")


def test_records_without_a_place_are_counted(tmp_path: Path) -> None:
    with archive_of(tmp_path / "a", 1) as (known, _, own, inside):
        inside(0, "Init", 0, 5)
        own[0].measurement_on_off(6, otf2.MeasurementMode.OFF)
        size = known.attribute("size", "", otf2.Type.INT64)
        own[0].enter(10, known.region("solve"), attributes={size: 7})
        own[0].parameter_int(11, known.parameter("n", otf2.ParameterType.INT64), 3)
        own[0].leave(12, known.region("solve"))
    said = lk.read_trace(tmp_path / "a").notes
    assert len(said) == 1
    for part in ("1 of MeasurementOnOff", "1 of ParameterInt", "1 of attribute of an event"):
        assert part in said[0]


def test_an_archive_from_which_the_library_never_returns_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def never(otf2: Any, archive: Any) -> None:
        print("lines of the library", file=sys.stderr)
        while True:
            pass

    with archive_of(tmp_path / "a", 1) as (_, _, _, inside):
        inside(0, "Init", 0, 5)
    monkeypatch.setattr(otf2_reader, "_read", never)
    monkeypatch.setattr(otf2_reader, "_LEAST_S", 1)
    with pytest.raises(
        DataError, match=r"traces.otf2' cannot be read: reading it takes more than 1 s of CPU"
    ):
        lk.read_trace(tmp_path / "a")
    assert capfd.readouterr().err == ""
