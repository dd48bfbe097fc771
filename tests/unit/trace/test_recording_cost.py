"""What recording costs is measured where it is recorded, and said where it disturbs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk


def meeting(comm: Any) -> None:
    lk.compute(seconds=1e-3 * (1 + comm.rank))
    comm.Barrier()


def test_simulated_time_has_no_cost_of_recording() -> None:
    run = lk.run(meeting, 3, on="star:3", trace=True)
    assert run.trace.recording_share() == 0.0
    assert "recording" not in f"{run.trace!r} {run.waits().reading()}".lower()


@pytest.mark.parametrize(("cost_s", "is_said"), [(1e-6, False), (400e-6, True)])
def test_it_is_said_from_a_twentieth_of_a_ranks_time(cost_s: float, is_said: bool) -> None:
    run = lk.run(meeting, 3, on="star:3", trace=True)
    run.trace.begins_s, run.trace.call_cost_s = [0.0, 0.0, 0.0], [cost_s, 0.0, 0.0]
    assert run.trace.recording_share() == pytest.approx(cost_s / run.trace.ends_s[0])
    assert ("Recording took about" in run.waits().reading()) is is_said
    assert "recording took about" in repr(run.trace)


@pytest.mark.mpi
def test_a_real_run_measures_it() -> None:
    def messages(comm: Any) -> None:
        for _ in range(50):
            comm.Send(np.zeros(1), 0) if comm.rank else comm.Recv(np.zeros(1), 1)

    run = lk.run(messages, 2, on="mpi", trace=True)
    assert len(run.trace.calls) == 100  # none of those that measured
    assert all(1e-8 < cost < 1e-3 for cost in run.trace.call_cost_s)
    assert 0 < run.trace.recording_share() < 1
