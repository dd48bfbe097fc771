"""Other legal orders of messages: what is seen, and what makes no sense."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import MachineError
from tests.support.refusals import raises_code


def _who_comes(comm):
    if comm.rank:
        comm.send(comm.rank, 0)
        return None
    return [comm.recv(source=MPI.ANY_SOURCE) for _ in range(comm.size - 1)]


def test_matchings_are_legal_and_every_source_is_seen() -> None:
    found = lk.run(_who_comes, 4, on="star", explore=20).exploration
    ((_, place),) = found.wildcards
    assert place.endswith(f"test_explore.py:{_who_comes.__code__.co_firstlineno + 4}")
    assert found.wildcards[0, place] == [1, 2, 3]
    assert 1 < found.matchings <= 6  # 3! orders
    assert found.differences
    assert all(difference.ranks == (0,) for difference in found.differences)


def test_the_same_request_explores_the_same_orders() -> None:
    first, second = (lk.run(_who_comes, 4, on="star", explore=8).exploration for _ in range(2))
    assert first == second


def test_the_run_that_is_returned_is_the_one_without_delays() -> None:
    plain, explored = lk.run(_who_comes, 4, on="star"), lk.run(_who_comes, 4, on="star", explore=5)
    assert (plain.results, plain.makespan_s) == (explored.results, explored.makespan_s)


def test_without_wildcards_there_is_nothing_to_explore() -> None:
    run = lk.run(lambda comm: comm.allreduce(comm.rank), 4, on="star", explore=20)
    assert run.exploration.tries == 0
    assert "in one way only" in run.notes[-1]


def test_messages_of_one_sender_stay_in_order() -> None:
    def program(comm):
        if comm.rank:
            for number in range(5):
                comm.Send(np.array([number]), 0)
            return None
        last, got, status = {}, np.zeros(1, int), MPI.Status()
        for _ in range(5 * (comm.size - 1)):
            comm.Recv(got, MPI.ANY_SOURCE, status=status)
            assert got[0] == last.get(status.source, -1) + 1
            last[status.source] = int(got[0])
        return sorted(last.items())

    run = lk.run(program, 4, on="star", explore=10)
    assert run.exploration.matchings > 1
    assert not run.exploration.differences


@pytest.mark.parametrize("tries", [-1, 2.5, "many", True, 10**9])
def test_numbers_of_tries_that_make_no_sense_are_refused(tries) -> None:
    with raises_code(MachineError, "out-of-range", "explore"):
        lk.run(_who_comes, 2, on="star", explore=tries)


def test_a_real_machine_has_no_other_orders() -> None:
    with raises_code(MachineError, "unknown-name", "'explore'"):
        lk.run(_who_comes, 2, on="mpi", explore=2)
