"""A rank may itself start a run: neither takes the other one's clock."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit import _kernels
from labkit.machines.models import get
from labkit.machines.platform import platform
from labkit.sim.simulation import Simulation, TimeLimit, running

PROGRAM = textwrap.dedent(
    """
    import time
    import labkit as lk

    def inner(comm):
        time.sleep(1e4)
        comm.barrier()

    def outer():
        began = time.perf_counter()
        run = lk.run(inner, 3, "star")
        assert 1e-5 < run.host_seconds < 1e4, run.host_seconds
        assert 1e4 <= run.makespan_s < 1e4 + 0.1, run.makespan_s
        return time.perf_counter() - began

    time.sleep(2.0)
    print(outer() < 1e-6)
    """
)


def test_a_run_of_a_script_s_rank_measures_the_host_and_takes_no_time_of_the_rank(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    run = lk.run(path, 1, "star")
    assert run.output == ["True\n"]
    assert run.makespan_s == pytest.approx(2.0 + 2 * get("lab").build().wtime_s, rel=1e-12)
    assert not run.notes


def test_until_its_ranks_run_the_rank_that_starts_a_run_is_the_running_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    entered = TimeLimit.__enter__

    def enter(limit: TimeLimit) -> TimeLimit:
        seen.append(running())
        return entered(limit)

    def outer(comm: Any) -> Simulation | None:
        lk.run(lambda comm: comm.barrier(), 3, "star")
        return running()

    monkeypatch.setattr(TimeLimit, "__enter__", enter)
    (mine,) = lk.run(outer, 1, "star").results
    assert mine is not None
    assert seen == [None, mine]


def test_a_hub_between_its_ranks_refuses_their_clock() -> None:
    hub = _kernels.Hub(platform("star").build(2), get("lab").build(), False, 0.0)
    for call in (hub.wtime, hub.now, lambda: hub.sleep(1.0), lambda: hub.compute(1.0), hub.now_after):
        with pytest.raises(RuntimeError, match="no rank of this run is running"):
            call()
