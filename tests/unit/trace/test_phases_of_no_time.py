"""Phases that take no time: they stand where the program has entered them, and in what it was then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit as lk
from labkit.real.context import RankContext
from labkit.trace.exchange.events import PHASE, events_of
from labkit.trace.trace import NO_PHASE, PhaseClock, by_entry

TREE = ["A", "E", "outer", "outer > head", "outer > tail", "outer > tail > deep", "B"]


def program(comm: Any) -> None:
    with lk.phase("A"):
        lk.compute(seconds=1e-3)
    with lk.phase("E"):
        pass
    with lk.phase("outer"):
        with lk.phase("head"):
            pass
        lk.compute(seconds=1e-3)
        with lk.phase("tail"), lk.phase("deep"):
            pass
    with lk.phase("B"):
        lk.compute(seconds=1e-3 * (1 + comm.rank))
    comm.Barrier()


@pytest.fixture(scope="module")
def run() -> Any:
    return lk.run(program, 3, on="star:3", trace=True)


def tree(run: Any) -> list[str]:
    paths = run.waits().paths["phase"].tolist()
    return list(dict.fromkeys(one for one in paths if one != NO_PHASE))


def test_they_are_told_where_they_were_entered(run: Any) -> None:
    own = run.phases[run.phases["rank"] == 1]
    assert own["phase"].tolist() == [one.rsplit(" > ", 1)[-1] for one in TREE]
    assert own["depth"].tolist() == [one.count(" > ") for one in TREE]
    assert sorted(tree(run)) == sorted(TREE)
    clock = PhaseClock(run.phases)
    assert [name for name, *_ in clock.pieces(1, 0.0, 4e-3)] == ["A", "outer", "B"]


def test_a_replay_tells_the_same(tmp_path: Path) -> None:
    run = lk.run(program, 3, on="star:3", trace=True, trace_ti=tmp_path / "t")
    again = lk.replay(tmp_path / "t", "star:3", trace=True)
    assert again.phases.equals(run.phases)
    assert sorted(tree(again)) == sorted(TREE)


def test_real_ranks_note_how_deep_they_are() -> None:
    machine = RankContext(0, 1)
    for name in ("outer", "inner"):
        machine.begin_phase(name)
    for name in ("inner", "outer"):
        machine.end_phase(name)
    assert [(name, depth) for name, _, _, depth in machine.phases] == [("inner", 1), ("outer", 0)]


def test_files_have_them_in_each_other(run: Any) -> None:
    events = events_of(run)
    own = (events.rank == 1) & (events.kind == PHASE)
    found = zip(np.array(events.names)[events.name[own]], events.depth[own].tolist(), strict=True)
    assert [*found] == [(one.rsplit(" > ", 1)[-1], one.count(" > ")) for one in TREE]


def test_a_run_that_was_kept_without_depths_is_read_by_its_times(run: Any) -> None:
    old = run.phases.drop(columns="depth")
    assert [name for name, *_ in PhaseClock(old).pieces(2, 0.0, 5e-3)] == ["A", "outer", "B"]


trees = st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=3), max_leaves=12)


@given(st.lists(trees, max_size=4), st.data())
def test_any_tree_of_phases_comes_back(forest: list[Any], data: Any) -> None:
    left, entered, now = [], [], [0]

    def visit(node: list[Any], depth: int) -> None:
        begin, number = float(now[0]), len(entered)
        entered.append((begin, depth, number))
        for one in node:
            visit(one, depth + 1)
        now[0] += data.draw(st.integers(0, 1))
        left.append((0, str(number), begin, float(now[0]), depth))

    for one in forest:
        visit(one, 0)
    found = by_entry(left)
    assert [(begin, depth, int(name)) for _, name, begin, _, depth in found] == entered
