"""The calls of a traced simulated run, with their times and places; no cost where nothing is traced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.algorithms.sorting.sample_sort import sample_sort


def methods() -> dict[Any, Any]:
    """Every method that a trace replaces, as it stands now."""
    from labkit.sim.calls.stand_ins import _plan

    return {(owner, name): vars(owner).get(name) for owner, name, _ in _plan()}


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    before = methods()
    yield
    assert methods() == before


def sort(comm: Any) -> Any:
    keys = np.random.default_rng(comm.rank).integers(0, 1000, 200)
    return sample_sort(comm, keys)


def calls_of(program: Any, ranks: int = 2, **options: Any) -> Any:
    return lk.run(program, ranks=ranks, on="star", trace=True, **options).trace.calls


def test_a_trace_changes_no_time_and_no_result() -> None:
    plain, traced = (lk.run(sort, ranks=8, on="star", trace=trace) for trace in (False, True))
    assert traced.makespan_s == plain.makespan_s
    assert plain.phases.equals(traced.phases)
    assert all(np.array_equal(a, b) for a, b in zip(plain.results, traced.results, strict=True))


def test_calls_fill_the_time_in_which_a_rank_waits() -> None:
    trace = lk.run(sort, ranks=8, on="star", trace=True).trace
    for rank, waits in trace.waits.groupby("rank"):
        own = trace.calls[trace.calls["rank"] == rank]
        assert (own["begin_s"].to_numpy()[1:] >= own["end_s"].to_numpy()[:-1]).all()
        row = np.searchsorted(own["begin_s"], waits["begin_s"], side="right") - 1
        assert (own["end_s"].to_numpy()[row] >= waits["end_s"]).all()


def test_calls_inside_calls_are_not_noted() -> None:
    def program(comm: Any) -> None:
        comm.allreduce({comm.rank}, op=lambda a, b: a | b)  # trees of messages

    assert calls_of(program)["call"].tolist() == ["allreduce"] * 2


def test_the_place_is_the_programs_own() -> None:
    places = calls_of(sort)["place"].unique()
    assert all(place.startswith("sort > sample_sort") for place in places)
    assert {place.rpartition(", ")[2].partition(":")[0] for place in places} >= {"sample_sort.py"}


def test_a_call_that_raises_is_over_before_the_next() -> None:
    def program(comm: Any) -> None:
        with pytest.raises(MPI.Exception):
            comm.Recv(np.empty(1), source=99)
        lk.compute(seconds=1.0)
        comm.barrier()

    calls = calls_of(program)
    own = calls[calls["rank"] == 0]
    assert own["call"].tolist() == ["Recv", "barrier"]
    assert own["end_s"].iloc[0] <= own["begin_s"].iloc[1]


def test_polls_that_follow_closely_are_one_call() -> None:
    def program(comm: Any) -> None:
        if comm.rank == 0:
            lk.compute(seconds=1e-4)
            comm.send(1, 1)
        else:
            request = comm.irecv(source=0)
            while not request.test()[0]:
                lk.compute(seconds=1e-6)
            lk.compute(seconds=1e-3)
            assert not comm.iprobe()
            lk.compute(seconds=1e-3)
            assert not comm.iprobe()

    calls = calls_of(program)
    own = calls[calls["rank"] == 1]
    assert own["call"].tolist() == ["irecv", "test", "test", "iprobe", "iprobe"]
    assert own["end_s"].iloc[1] >= 1e-4 * 0.9


def test_collectives_are_joined_by_communicator_and_order() -> None:
    def program(comm: Any) -> None:
        half = comm.Split(comm.rank % 2)
        half.bcast(None, root=half.size - 1)
        comm.Allreduce(np.ones(3), np.empty(3))
        MPI.COMM_SELF.barrier()

    calls = calls_of(program, 4)
    joints = calls[calls["call"] == "bcast"].groupby("joint")
    assert sorted(sorted(group["rank"]) for _, group in joints) == [[0, 2], [1, 3]]
    assert {tuple(group["root"].unique()) for _, group in joints} == {(2,), (3,)}
    everybody = calls[calls["call"] == "Allreduce"]
    assert everybody["joint"].nunique() == 1
    assert everybody["bytes"].tolist() == [24] * 4
    assert calls[calls["call"] == "barrier"]["joint"].nunique() == 4


def test_methods_are_put_back_when_the_last_run_is_over() -> None:
    from labkit.sim.calls import NOTING

    plain, first, second = methods(), NOTING, NOTING
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert methods() != plain
    second.__exit__(None, None, None)
    assert methods() == plain
