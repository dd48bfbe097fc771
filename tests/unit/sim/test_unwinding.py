"""Errors that come while ranks unwind: a time limit knocks again, where nothing catches it any more."""

from __future__ import annotations

from typing import Any

import pytest

import labkit as lk
from labkit.errors import RankError
from labkit.sim.simulation import Simulation, TimeUp
from tests.support.refusals import raises_code


def one_fails(comm: Any) -> None:
    if comm.rank == comm.size - 1:
        raise ValueError("the first failure")
    comm.recv(source=comm.size - 1)


def test_a_knock_that_escapes_a_rank_does_not_hide_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    note = Simulation._fail

    def knocked(self: Simulation, error: BaseException) -> None:
        note(self, error)
        if not isinstance(error, ValueError):
            raise TimeUp

    monkeypatch.setattr(Simulation, "_fail", knocked)
    with raises_code(RankError, "rank-failed"):
        lk.run(one_fails, 5)


def test_another_error_while_unwinding_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    note = Simulation._fail

    def interrupted(self: Simulation, error: BaseException) -> None:
        note(self, error)
        if not isinstance(error, ValueError):
            raise KeyboardInterrupt

    monkeypatch.setattr(Simulation, "_fail", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lk.run(one_fails, 5)
    monkeypatch.undo()
    assert lk.run(lambda comm: comm.rank, 3).results == [0, 1, 2]
