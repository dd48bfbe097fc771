"""Random programs of windows, datatypes and files leave the same bytes on real MPI and simulated."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit import MPI
from tests.support.window_programs import AMOUNTS, amounts, digests


def both(ranks: int, first: int, count: int, folder) -> tuple[list, list]:
    how = {"args": (first, count, str(folder)), "timeout_s": 600}
    simulated = lk.run(digests, ranks, f"star:1,cores={ranks}", **how)
    assert not [note for note in simulated.notes if "computation was free" not in note]  # no alarm
    return simulated.results, lk.run(digests, ranks, "mpi", **how).results


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [1, 3])
def test_random_programs_leave_the_same_bytes(ranks, tmp_path) -> None:
    simulated, real = both(ranks, 0, 25, tmp_path)
    assert simulated == real


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [1, 2])
def test_what_takes_may_have_room_for_more_and_not_for_less(ranks) -> None:
    simulated = lk.run(amounts, ranks, f"star:1,cores={ranks}")
    assert simulated.notes == []
    assert simulated.results == lk.run(amounts, ranks, "mpi", timeout_s=120).results
    refused = [found == MPI.ERR_TRUNCATE for found in simulated.results[0]]
    assert refused == [*(here > there for here, there in AMOUNTS), *(here < there for here, there in AMOUNTS),
                       False, False] * ranks  # fmt: skip


@pytest.mark.mpi
@pytest.mark.slow
def test_a_thousand_random_programs_leave_the_same_bytes(tmp_path) -> None:
    for ranks, first in ((2, 1000), (3, 2000), (4, 3000)):
        simulated, real = both(ranks, first, 334, tmp_path)
        assert simulated == real


def test_windows_print_nothing_and_lie_in_the_runs_folder():
    def program(comm):
        for _ in range(3):
            window = MPI.Win.Allocate_shared(4096, 1, comm=comm)
            other = MPI.Win.Allocate(4096, 1, comm=comm)
            with open("/proc/self/maps", encoding="utf-8") as file:
                mapped = {line.split(maxsplit=5)[5].strip() for line in file if "/dev/shm/" in line}
            other.Free()
            window.Free()
        return [path for path in mapped if not path.startswith("/dev/shm/labkit-")]

    run = lk.run(program, 2, "mpi")
    assert run.results == [[], []]
    assert run.output == ["", ""]
