"""Schedules in rounds: ports are free, contributions only spread, the last round completes the collective."""

from __future__ import annotations

from collections import Counter

import pytest

from labkit import registry
from labkit.schedule import Schedule, check, count
from labkit.schedule.symbolic import rounds
from tests.support.where import at


@pytest.mark.parametrize(("problem", "name"), registry.schedules())
def test_rounds_keep_the_ports_and_end_complete(problem: str, name: str) -> None:
    algorithm = registry.get(problem, name)
    for ranks in (1, 5, 8):
        if not algorithm.requirements.unmet(ranks):
            with at(ranks=ranks):
                keeps_the_ports_and_ends_complete(algorithm.build(ranks))


def keeps_the_ports_and_ends_complete(schedule: Schedule) -> None:
    ranks = schedule.size
    found = rounds(schedule)
    assert len(found.states) == len(found.heard) == len(found) + 1
    for one in found.messages:
        assert one, "no round is empty"
        assert max(Counter(m.source for m in one).values()) == 1
        assert max(Counter(m.destination for m in one).values()) == 1
    proof = check(schedule)
    assert sum(map(len, found.messages)) == proof.messages
    assert len(found) == count(schedule, 0.0)[0]
    for rank in range(ranks):
        for number, buffer in enumerate(schedule.buffers):
            for block in range(0 if buffer.is_temporary else schedule.n_blocks(rank)[number]):
                wanted = schedule.problem.final(buffer.name, rank, block, ranks, schedule.root)
                assert wanted is None or found.states[-1][rank][number, block] == wanted
    if schedule.problem.name == "barrier":
        assert found.heard[-1] == [(1 << ranks) - 1] * ranks


def test_a_rank_holds_only_what_it_was_sent() -> None:
    found = rounds(registry.get("bcast", "binomial").build(8))
    assert [sum(map(bool, state)) for state in found.states] == [1, 2, 4, 8]


def test_a_block_keeps_its_value_until_the_new_one_arrives() -> None:
    found = rounds(registry.get("allreduce", "ring").build(4))
    recv = [buffer.name for buffer in found.schedule.buffers].index("recv")
    for state in found.states:
        assert all((recv, block) in held for held in state for block in range(4))
