# ruff: noqa: N802 (MPI spells its names so)
"""Every algorithm moves and combines real data as MPI defines its collective: native, and over messages."""

from __future__ import annotations

import threading
from collections import defaultdict
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from labkit import registry
from labkit.schedule import check, execute
from labkit.sim.schedules import perform
from tests.support.collectives import affine, case_of
from tests.support.where import at

SIZES = [[1, 2, 3, 4, 5, 7, 8, 16], pytest.param([6, 9, 13, 17, 32], marks=pytest.mark.slow)]


def cases(problem: str, name: str, sizes: list[int], *, empty_on: int | None = None):
    """Yield schedules and calls: every kind of root, no, one, few elements, both kinds of operators.

    With `empty_on`, no element and one are tried on so many ranks only.
    """
    algorithm = registry.get(problem, name)
    for p in sizes:
        rng = np.random.default_rng([p, len(name), len(problem)])
        for op in ("sum", affine):
            commutative = op == "sum"
            if algorithm.requirements.unmet(p, commutative):
                continue
            schedule = algorithm.build(p, root=int(rng.integers(p)), commutative=commutative)
            few = (0, 1) if empty_on in (None, p) else ()
            for n in (*few, int(rng.integers(2, 40))):
                yield schedule, case_of(schedule, rng, n, op), rng


def performed(schedule: Any, case: Any, model: str, **more: Any) -> Any:
    result = perform(
        schedule, case.buffers, f"star:{schedule.size}", model, op=case.op, counts=case.counts, **more
    )
    case.verify()
    return result


EVERY = pytest.mark.parametrize(("problem", "name"), registry.schedules())


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@EVERY
def test_native(problem: str, name: str, sizes: list[int]) -> None:
    proof: Any = None
    for schedule, case, rng in cases(problem, name, sizes):
        with at(schedule=schedule):
            result = performed(schedule, case, "lab", start_s=rng.random(schedule.size) * 1e-4)
            if proof is None or proof.schedule is not schedule:
                proof = check(schedule)
            assert proof, proof
            assert result.messages == proof.messages


@EVERY
def test_native_with_rendezvous(problem: str, name: str) -> None:
    algorithm = registry.get(problem, name)
    ranks = next(p for p in (5, 6, 8, 2) if not algorithm.requirements.unmet(p))
    schedule = algorithm.build(ranks, root=ranks - 2)
    for n in (20_000, 65_536 // 8):
        with at(n=n):
            performed(schedule, case_of(schedule, np.random.default_rng(1), n), "smpi")


@pytest.mark.slow
@EVERY
def test_over_messages(problem: str, name: str) -> None:
    for schedule, case, _ in cases(problem, name, [1, 2, 3, 5, 8], empty_on=2):
        world = World(schedule.size)

        def one(rank: int, world: World = world, schedule: Any = schedule, case: Any = case) -> None:
            counts = None if case.counts is None else case.counts[rank]
            execute(Comm(world, rank), schedule, op=case.op, counts=counts, **case.buffers[rank])

        with at(schedule=schedule):
            world.run(one)
            case.verify()


@pytest.mark.slow
@EVERY
def test_one_rank_sees_its_part_of_the_whole(problem: str, name: str) -> None:
    for p in (1, 2, 3, 6, 8, 11):
        if registry.get(problem, name).requirements.unmet(p):
            continue
        schedule = registry.get(problem, name).build(p, root=p - 1)
        programs: dict[int, list[Any]] = defaultdict(list)
        for step in schedule.steps():
            for rank, op in step.entries():
                programs[rank].append(op)
        for rank in range(p):
            assert schedule.program(rank) == programs[rank], (p, rank)


# -- the smallest communicator: threads and queues ------------------------------------------------------
class World:
    def __init__(self, size: int) -> None:
        self.size = size
        self.queues: dict[tuple[int, int, int], SimpleQueue[bytes]] = {
            (s, d, 0): SimpleQueue() for s in range(size) for d in range(size)
        }

    def run(self, program: Any) -> None:
        failures: list[BaseException] = []

        def guarded(rank: int) -> None:
            try:
                program(rank)
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=guarded, args=(r,), daemon=True) for r in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=20)
        assert not failures, failures
        assert not any(thread.is_alive() for thread in threads), "deadlock"


class Request:
    def __init__(self, complete: Any = None) -> None:
        self.complete = complete

    @classmethod
    def Waitall(cls, requests: list[Request]) -> None:
        for request in requests:
            if request.complete is not None:
                request.complete()


class Comm:
    def __init__(self, world: World, rank: int) -> None:
        self.world, self.rank = world, rank

    def Get_size(self) -> int:
        return self.world.size

    def Get_rank(self) -> int:
        return self.rank

    def Isend(self, buf: np.ndarray, dest: int, tag: int) -> Request:
        self.world.queues[self.rank, dest, tag].put(buf.tobytes())
        return Request()

    def Irecv(self, buf: np.ndarray, source: int, tag: int) -> Request:
        def complete() -> None:
            data = self.world.queues[source, self.rank, tag].get(timeout=10)
            assert len(data) == buf.nbytes
            buf[...] = np.frombuffer(data, np.uint8)

        return Request(complete)

    def Send(self, buf: np.ndarray, dest: int, tag: int) -> None:
        self.Isend(buf, dest, tag)

    def Recv(self, buf: np.ndarray, source: int, tag: int) -> None:
        Request.Waitall([self.Irecv(buf, source, tag)])
