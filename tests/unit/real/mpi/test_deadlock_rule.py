"""The rule by which a deadlock of real ranks is told: nobody waits for what another one gives."""

from __future__ import annotations

import ctypes

import pytest

from labkit.process.stacks import Frame
from labkit.real.mpi import waits
from labkit.real.mpi.deadlock import Blame
from labkit.real.mpi.waits import COLLECTIVE, OTHER, PROBE, RECV, SEND, Head, Item, Joint, PageContent
from labkit.real.mpi.waits_page import BUFFERED, MAGIC, Page, PageHead
from labkit.sim.deadlock import find_cycle

WORLD = 1


def item(kind, peer=-1, tag=0, comm=WORLD, ordinal=0, size=0):
    return Item(kind, peer, tag, comm, ordinal, size)


def page(*waiting, posted=(), call="Recv", entered=0, calls=(), members=(0, 1, 2)):
    joint = Joint(entered, tuple(members), tuple(calls))
    return PageContent(Head(1, True, False), call, tuple(waiting), tuple(posted), {WORLD: joint})


def blame(*pages, finished=None):
    return Blame(dict(enumerate(pages)), finished or {})


def test_facing_receives_are_a_deadlock_with_a_cycle():
    found = blame(page(item(RECV, 1)), page(item(PROBE, 0)))
    assert found.is_deadlock
    place = Frame("prog.py", 7, "program")
    waiting = found.waiting({0: [place], 1: [place]})
    assert waiting[0].text == "Recv from rank 1, tag 0 at prog.py:7 in program"
    assert find_cycle(waiting) in ([0, 1], [1, 0])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (page(item(RECV, 1)), page(item(SEND, 0))),  # a message under way
        (page(item(RECV, -1, -1)), page(item(SEND, 0, 5))),
        (page(item(RECV, 1)), page(item(RECV, 0, 9), posted=[item(SEND, 0)])),
        (page(item(OTHER)), page(item(RECV, 0))),  # whoever ends that is not known
        (page(item(COLLECTIVE, ordinal=1), entered=1, members=(0, 1)),) * 2,  # all have come
        (page(), page(item(RECV, 0))),
    ],
)
def test_whatever_may_still_come_is_no_deadlock(first, second):
    assert not blame(first, second).is_deadlock


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (page(item(RECV, 1, tag=1)), page(item(SEND, 0, tag=2))),
        (page(item(RECV, 1, comm=1)), page(item(SEND, 0, comm=2))),
        (page(item(SEND, 1)), page(item(SEND, 0))),
        (page(item(RECV, 2)), page(item(SEND, 2))),  # rank 2 has finished
        (page(item(RECV, 1)), page(item(COLLECTIVE, ordinal=1), entered=1, members=(0, 1))),
    ],
)
def test_halves_that_do_not_fit_are_a_deadlock(first, second):
    assert blame(first, second).is_deadlock


def test_a_finished_rank_that_never_came_to_a_collective_is_named():
    waiting = page(item(COLLECTIVE, ordinal=2), entered=2, call="Barrier")
    found = blame(waiting, waiting, finished={2: page(entered=1)})
    assert found.is_deadlock
    assert found.waiting({})[0].text.startswith("Barrier, waiting for rank 2")
    come = blame(waiting, waiting, finished={2: page(entered=2)})
    assert not come.is_deadlock


def test_collectives_that_do_not_match_are_told():
    first = page(item(COLLECTIVE, ordinal=1), entered=1, calls=[("Barrier", -1)], members=(0, 1))
    second = page(item(COLLECTIVE, ordinal=1), entered=1, calls=[("Bcast", 0)], members=(0, 1))
    assert "rank 1 calls Bcast with root 0 where rank 0 called Barrier" in blame(first, second).mismatch()
    assert blame(first, first).mismatch() == ""


def test_a_page_says_little_when_it_is_flagged_or_of_another_layout(tmp_path):
    path = tmp_path / "rank-0.wait"
    assert waits.read_head(path) is None
    path.write_bytes(bytes(ctypes.sizeof(Page)))
    assert waits.read_head(path) is None
    assert waits.read_waits(path) is None
    head = PageHead(MAGIC, 3, flags=BUFFERED)
    path.write_bytes(bytes(head).ljust(ctypes.sizeof(Page), b"\0"))
    assert waits.read_head(path) == Head(3, False, False)
    assert waits.read_waits(path).waiting == ()
