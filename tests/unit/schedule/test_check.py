"""The checker refutes every planted fault, and says where; it proves what is right."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from labkit import registry
from labkit.errors import ScheduleError
from labkit.schedule import (
    Counterexample,
    Generator,
    Group,
    Kind,
    Op,
    Schedule,
    Step,
    Temporary,
    block,
    blocks,
    build,
    check,
    prove,
    whole,
)
from tests.support.refusals import raises_code

EVERY = pytest.mark.parametrize(("problem", "name"), registry.schedules())


class Listed(Step):
    """A step that is given as its entries: (rank, operation) in place of columns."""

    def entries(self) -> Iterator[tuple[int, Op]]:
        return iter(self.columns)  # type: ignore[arg-type]


def with_programs(schedule: Schedule, programs: list[list[Op]]) -> Schedule:
    """Return the schedule with other programs."""

    def generator(group: Group) -> Iterator[Step]:
        yield Listed(tuple((rank, op) for rank in group.ranks.tolist() for op in programs[rank]))

    return dataclasses.replace(schedule, generator=generator)


def programs_of(schedule: Schedule) -> list[list[Op]]:
    return [schedule.program(rank) for rank in range(schedule.size)]


Change = Callable[[int, Op], list[Op] | None]


def mutants(schedule: Schedule, changed: Change) -> Iterator[tuple[str, Schedule]]:
    """Yield the schedule with one operation changed, for every operation for which that is possible."""
    programs = programs_of(schedule)
    for rank, program in enumerate(programs):
        for position, op in enumerate(program):
            new = changed(rank, op)
            if new is not None:
                other = [*program[:position], *new, *program[position + 1 :]]
                label = f"{schedule!r}: rank {rank}, operation {position} {op}"
                yield label, with_programs(schedule, [*programs[:rank], other, *programs[rank + 1 :]])


def small(problem: str, name: str, sizes: tuple[int, ...] = (3, 4, 6)) -> list[Schedule]:
    """The algorithm's schedules for few ranks."""
    algorithm = registry.get(problem, name)
    commutative = algorithm.requirements.commutative
    return [
        algorithm.build(p, root=1, commutative=commutative)
        for p in sizes
        if not algorithm.requirements.unmet(p)
    ]


def must_refute_all(schedule: Schedule, changed: Change) -> None:
    assert check(with_programs(schedule, programs_of(schedule)))
    for label, mutant in mutants(schedule, changed):
        result = check(mutant)
        assert isinstance(result, Counterexample), label
        assert 0 <= result.rank < schedule.size


def wrong_peer(schedule: Schedule, rank: int, op: Op) -> list[Op] | None:
    return [op._replace(peer=(op.peer + 1) % schedule.size)] if op.peer >= 0 else None


def dropped(schedule: Schedule, rank: int, op: Op) -> list[Op] | None:
    """Waits apart: a later wait may stand in for a dropped one."""
    return None if op.kind is Kind.WAIT else []


def doubled_contribution(schedule: Schedule, rank: int, op: Op) -> list[Op] | None:
    return [op, op] if op.kind is Kind.COMBINE else None


def message_sent_twice(schedule: Schedule, rank: int, op: Op) -> list[Op] | None:
    return [op, op] if op.kind.is_send else None


def swapped_operands(schedule: Schedule, rank: int, op: Op) -> list[Op] | None:
    if op.kind is not Kind.COMBINE or schedule.commutative:
        return None
    return [op._replace(is_source_first=not op.is_source_first)]


def wrong_block(schedule: Schedule, rank: int, op: Op) -> list[Op] | None:
    n_blocks = schedule.n_blocks(rank)
    if op.section.buffer < 0 or n_blocks[op.section.buffer] < 2:
        return None
    if len(set(_indices(op, n_blocks[op.section.buffer]))) == n_blocks[op.section.buffer]:
        return None  # all blocks: their order is tested by the others
    return [op._replace(section=op.section._replace(first=op.section.first + 1))]


def wrong_length(schedule: Schedule, rank: int, op: Op) -> list[Op] | None:
    length = op.section.length
    if op.section.buffer < 0 or length == 0:
        return None
    if length < 0:
        length = schedule.n_blocks(rank)[op.section.buffer]
    less = op.section.stride if op.section.run > 0 else 1
    return [op._replace(section=op.section._replace(length=max(length - less, 0)))]


def _indices(op: Op, n_blocks: int) -> list[int]:
    from labkit.schedule import block_indices

    return block_indices(*op.section[1:], n_blocks).tolist()


FAULTS = [wrong_peer, dropped, doubled_contribution, message_sent_twice, swapped_operands, wrong_block,
          wrong_length]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@EVERY
def test_fault_in_any_operation(problem: str, name: str, fault: Any) -> None:
    schedule = next(iter(small(problem, name, (3, 4, 2))))  # the first that is allowed
    must_refute_all(schedule, partial(fault, schedule))


@pytest.mark.slow
@EVERY
def test_every_fault_in_any_operation_on_more_ranks(problem: str, name: str) -> None:
    for schedule in small(problem, name, (4, 6)):
        for fault in FAULTS:
            must_refute_all(schedule, partial(fault, schedule))


@EVERY
def test_no_wait_at_all(problem: str, name: str) -> None:
    for schedule in small(problem, name):
        programs = programs_of(schedule)
        for rank in range(schedule.size):
            if any(op.kind is Kind.WAIT for op in programs[rank]):
                waitless = [op for op in programs[rank] if op.kind is not Kind.WAIT]
                result = check(with_programs(schedule, [*programs[:rank], waitless, *programs[rank + 1 :]]))
                assert isinstance(result, Counterexample), (schedule, rank)
                assert result.kind in ("race", "not waited", "unmatched", "undefined", "missing value")


# -- one of each kind, by hand ---------------------------------------------------------------------------
def refuted(problem: str, generator: Generator, ranks: int, **options: Any) -> Counterexample:
    result = check(build(problem, generator, ranks, **options))
    assert isinstance(result, Counterexample), result
    return result


def test_deadlock_names_the_cycle() -> None:
    def both_send_first(group: Group) -> Iterator[Step]:
        other = 1 - group.ranks
        yield group.copy(block("send"), block("recv", group.ranks))
        yield group.send(block("send"), to=other) + group.recv(block("recv", other), source=other)

    found = refuted("allgather", both_send_first, 2)
    assert found.kind == "deadlock"
    assert "rank 0 waits for rank 1 waits for rank 0" in found.message


def test_race_between_a_send_under_way_and_a_write() -> None:
    def overwrites(group: Group) -> Iterator[Step]:
        me = group.ranks
        yield group.copy(block("send"), block("recv"))
        yield group.isend(block("recv"), to=1 - me) + group.irecv(block("tmp"), source=1 - me)
        yield group.wait(label=7) + group.combine(block("tmp"), block("recv")) + group.wait()

    found = refuted("allreduce", overwrites, 2, temporaries=["tmp"])
    assert (found.kind, found.rank, found.block) == ("race", 0, "tmp[0]")
    assert found.step == 4


def test_input_is_not_to_be_written() -> None:
    def writes_input(group: Group) -> Iterator[Step]:
        yield group.recv(block("send"), source=1, where=group.ranks == 0)
        yield group.send(block("send"), to=0, where=group.ranks == 1)

    assert refuted("allreduce", writes_input, 2).kind == "read only"


def test_only_the_root_has_the_result_buffer() -> None:
    def writes_everywhere(group: Group) -> Iterator[Step]:
        yield group.copy(block("send"), block("recv"))

    found = refuted("gather", writes_everywhere, 2, root=1)
    assert (found.kind, found.rank) == ("no buffer", 0)


def test_sizes_that_need_not_agree() -> None:
    def crosses_parts(group: Group) -> Iterator[Step]:
        me = group.ranks
        yield group.copy(whole("send"), whole("recv"))
        yield group.sendrecv(block("recv", 0), 1 - me, block("tmp", 1), 1 - me)

    found = refuted("allreduce", crosses_parts, 2, parts=2, temporaries=["tmp"])
    assert (found.kind, found.block) == ("size", "tmp[1]")


def test_a_vector_collective_must_not_use_sizes_it_does_not_know() -> None:
    def through_a_neighbor(group: Group) -> Iterator[Step]:
        me = group.ranks
        yield group.send(block("send"), to=1, where=me == 2)
        yield group.recv(block("tmp", 2), source=2, where=me == 1)

    found = refuted("gatherv", through_a_neighbor, 3, temporaries=["tmp"])
    assert (found.kind, found.rank) == ("no buffer", 1)


def through(group: Group, tells: str) -> Iterator[Step]:
    """Ranks 0 <- 1 <- 2: rank 2's block passes through rank 1, which is told its size in time or not."""
    me = group.ranks
    if tells == "first":
        yield group.send(block("counts"), to=1, where=me == 2)
    yield group.recv(block("counts", 1), source=2, where=(me == 1) & (tells == "first"))
    if tells == "the wrong one":
        yield group.send(block("counts"), to=1, where=me == 0)
        yield group.recv(block("counts", 1), source=0, where=me == 1)
    late = (me == 1) & (tells == "late")
    yield group.irecv(block("counts", 1), source=2, where=late)
    yield group.send(block("counts"), to=1, where=(me == 2) & (tells == "late"))
    yield group.recv(block("passed", 1), source=2, where=me == 1)
    yield group.send(block("send"), to=1, where=me == 2)
    yield group.wait(where=late)
    yield group.copy(block("send"), block("passed"), where=me == 1)
    yield group.send(whole("passed"), to=0, where=me == 1)
    yield group.copy(block("send"), block("recv"), where=me == 0)
    yield group.recv(blocks("recv", 1, 2), source=1, where=me == 0)


def two_from_here(group: Group) -> Any:
    return np.full(len(group.ranks), 2)


TOLD = (
    Temporary("counts", like="send", blocks=two_from_here, holds="counts"),
    Temporary("passed", like="send", blocks=two_from_here, holds="told"),
)


def test_sizes_may_be_used_once_they_were_told() -> None:
    assert check(build("gatherv", partial(through, tells="first"), 3, temporaries=TOLD))


@pytest.mark.parametrize(
    ("tells", "kind", "words"),
    [
        ("nothing", "undefined", "counts[1] is used before it is set"),
        ("late", "race", "counts[1] is still in use by operation 0"),
        (
            "the wrong one",
            "wrong value",
            "the size of rank 0's block, not the size of rank 2's",
        ),
    ],
)
def test_sizes_that_were_not_told_are_not_used(tells: str, kind: str, words: str) -> None:
    found = refuted("gatherv", partial(through, tells=tells), 3, temporaries=TOLD)
    assert (found.kind, found.rank) == (kind, 1)
    assert words in found.message


def test_counts_are_no_data() -> None:
    def copies(group: Group) -> Iterator[Step]:
        yield group.copy(block("counts"), block("counts", 1))

    assert "counts are sent and received" in refuted("gatherv", copies, 2, temporaries=TOLD).message

    def sends_a_count_as_a_block(group: Group) -> Iterator[Step]:
        yield group.send(block("counts"), to=0, where=group.ranks == 1)
        yield group.recv(block("recv", 1), source=1, where=group.ranks == 0)

    assert refuted("gatherv", sends_a_count_as_a_block, 2, temporaries=TOLD).kind == "size"


@pytest.mark.parametrize(
    ("problem", "temporaries", "wanted"),
    [
        ("gatherv", TOLD[1:], ("malformed-schedule", '"counts"')),
        ("scatterv", TOLD + TOLD[1:], ("malformed-schedule", '"counts"')),
        ("alltoallv", TOLD, ("malformed-schedule",)),
        ("gather", TOLD, ("malformed-schedule",)),
    ],
)
def test_counts_where_they_make_no_sense(problem: str, temporaries: Any, wanted: tuple[str, ...]) -> None:
    with raises_code(ScheduleError, *wanted):
        build(problem, partial(through, tells="first"), 3, temporaries=temporaries)


def test_a_barrier_that_lets_one_go_early() -> None:
    def only_to_the_right(group: Group) -> Iterator[Step]:
        me = group.ranks
        yield group.recv(None, source=me - 1, where=me > 0) + group.send(None, to=me + 1, where=me < 2)

    found = refuted("barrier", only_to_the_right, 3)
    assert found.rank == 0
    assert "before rank 1 has entered" in found.message


def test_undefined_and_unmatched_and_no_rank() -> None:
    def undefined(group: Group) -> Iterator[Step]:
        yield group.copy(block("tmp"), block("recv"))

    def unmatched(group: Group) -> Iterator[Step]:
        yield group.isend(block("data"), to=1, where=group.ranks == 0)

    def outside(group: Group) -> Iterator[Step]:
        yield group.send(block("data"), to=group.ranks + 1)

    assert refuted("allreduce", undefined, 2, temporaries=["tmp"]).kind == "undefined"
    assert refuted("bcast", unmatched, 2).kind == "unmatched"
    assert refuted("bcast", outside, 1).kind == "no rank"


def test_twice_and_out_of_order() -> None:
    def sums(order: list[int]) -> Callable[[Group], Iterator[Step]]:
        def generator(group: Group) -> Iterator[Step]:
            yield group.send(block("send"), to=0, where=group.ranks > 0)
            yield group.copy(block("send"), block("recv"), where=group.ranks == 0)
            for source in order:
                yield group.recv(block("tmp"), source, where=group.ranks == 0)
                yield group.combine(block("tmp"), block("recv"), False, where=group.ranks == 0)

        return generator

    assert check(build("reduce", sums([2, 1]), 3, temporaries=["tmp"]))
    found = refuted("reduce", sums([2, 1]), 3, temporaries=["tmp"], commutative=False)
    assert (found.kind, found.rank, found.block) == ("order", 0, "recv[0]")
    assert "rank 0 stands left of rank 2" in found.message


def test_prove_raises_with_the_counterexample() -> None:
    def nothing(group: Group) -> Iterator[Step]:
        yield from ()

    with raises_code(ScheduleError, "malformed-schedule", "rank 1", "[0]"):
        prove(build("bcast", nothing, 2))
    assert prove(build("bcast", nothing, 1)).messages == 0


def test_a_section_with_a_block_twice() -> None:
    def twice(group: Group) -> Iterator[Step]:
        yield group.copy(blocks("send", 0, 3), blocks("recv", 0, 3))

    assert refuted("alltoall", twice, 2).kind == "shape"
