"""A generator that is none, or that asks an array of ranks for one answer, is told in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from labkit.errors import ScheduleError
from labkit.schedule import Group, Step, block, build, check
from tests.support.refusals import raises_code


def nothing_at_all(group: Group) -> None:
    """A function that forgot its yield."""
    group.send(block("data"), to=1, where=group.ranks == 0)


def a_step(group: Group) -> Step:
    """A function that returns where it should yield."""
    return group.send(block("data"), to=1, where=group.ranks == 0)


def nothing_yielded(group: Group) -> Iterator[Any]:
    """A generator with a yield of its own line."""
    group.send(block("data"), to=1, where=group.ranks == 0)
    yield


def if_of_all_ranks(group: Group) -> Iterator[Step]:
    """Written as a rank would write it."""
    if group.ranks == 0:
        yield group.send(block("data"), to=1)


def its_own_fault(group: Group) -> Iterator[Step]:
    """A fault that has nothing to do with ranks."""
    yield group.send(block("data"), to=int("one"))


@pytest.mark.parametrize(
    ("generator", "wanted"),
    [
        (nothing_at_all, ("malformed-schedule", "bcast/mine", "nothing_at_all", "group.send")),
        (a_step, ("malformed-schedule", "bcast/mine", "a_step")),
        (nothing_yielded, ("malformed-schedule", "bcast/mine", "nothing_yielded", "group.send")),
        (if_of_all_ranks, ("malformed-schedule", "bcast/mine", "if_of_all_ranks", "group.ranks", "where=")),
    ],
)
def test_what_is_no_generator_of_steps(generator: Any, wanted: tuple[str, ...]) -> None:
    with raises_code(ScheduleError, *wanted):
        check(build("bcast", generator, ranks=4))


def test_other_faults_of_a_generator_are_its_own() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        check(build("bcast", its_own_fault, ranks=4))


def test_a_work_buffer_that_was_not_declared_is_told_how() -> None:
    def adds(group: Group) -> Iterator[Step]:
        yield group.copy(block("send"), block("sum"))

    with raises_code(ScheduleError, "unknown-name", "'sum'", "temporaries="):
        check(build("allreduce", adds, ranks=2))


def test_an_input_that_is_written_is_told_why_and_what_to_do() -> None:
    def adds(group: Group) -> Iterator[Step]:
        yield group.combine(block("recv"), block("send"))

    def overwrites(group: Group) -> Iterator[Step]:
        yield group.copy(block("send"), block("recv"))
        yield from adds(group)

    found = str(check(build("allreduce", overwrites, ranks=2)))
    assert "send[0] is the caller's input, which must not change: copy it first" in found
