"""A module that asks for its rank while it is imported is each rank's own; others are shared."""

from __future__ import annotations

import importlib
import sys

import pytest

import labkit as lk

FILES = {
    "asked_once": "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\nrank = comm.Get_rank()\n",
    "asks_another": """
from asked_once import rank, comm
import asked_once
KEPT = [rank]
class Holder:
    of_class = rank
    def __init__(self):
        self.rank = rank
def who():
    return rank, asked_once.rank, comm.Get_size()
""",
    "asks_in_a_function": """
from labkit import MPI
def _own():
    return MPI.COMM_WORLD.Get_rank()
rank = _own()
""",
    "asks_nothing": "N = 3\nclass Plain:\n    pass\ndef three():\n    return N\n",
}


@pytest.fixture
def modules(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield {name: importlib.import_module(name) for name in FILES}
    for name in FILES:
        sys.modules.pop(name, None)


def test_every_rank_has_its_own_values(modules) -> None:
    asks, inside = modules["asks_another"], modules["asks_in_a_function"]
    who, holder = asks.who, asks.Holder

    def program(comm):
        asks.KEPT.append(comm.rank)
        return asks.rank, who(), holder().rank, holder.of_class, asks.KEPT, inside.rank

    for size in (1, 2, 3, 5):
        found = lk.run(program, ranks=size, on="star").results
        assert found == [(r, (r, r, size), r, r, [r, r], r) for r in range(size)]
    assert asks.KEPT == [0]


def test_objects_of_its_classes_come_back_as_what_they_are(modules) -> None:
    holder = modules["asks_another"].Holder

    def program(comm):
        return comm.allgather(holder())

    found = lk.run(program, ranks=3, on="star").results
    assert all(type(one) is holder for row in found for one in row)
    assert [[one.rank for one in row] for row in found] == [[0, 1, 2]] * 3


def test_a_module_that_asks_nothing_is_not_executed_again(modules) -> None:
    plain = modules["asks_nothing"]

    def program(comm):
        return plain.three(), plain.Plain

    assert lk.run(program, ranks=2, on="star").results == [(3, plain.Plain)] * 2
