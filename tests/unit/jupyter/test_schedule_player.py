"""The player of made schedules: its rounds end with the result, and say what the schedule does."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit import registry
from labkit.errors import DataError, ScheduleError
from labkit.jupyter import explorers
from tests.support.refusals import raises_code

RING = lk.graph([(i, (i + 1) % 5) for i in range(5)], range(5), bw="1Gbps", lat="1us")


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["allgather", "alltoall", "allreduce", "bcast"])
def test_a_synthesized_schedule_is_played_from_nothing_to_the_result(problem):
    made = lk.synthesize(problem, on=RING, n_bytes=5000)
    player = explorers.schedule(made)
    last = player.step.max
    assert last == len(player.prepared.found) >= 1
    readings = []
    for step in range(last + 1):
        player.set(step=step)
        readings.append(player.figure.reading)
    assert len(set(readings)) == last + 1
    assert problem in readings[-1]
    assert f"round {last} of {last}" in readings[-1]
    said = readings[-1].rpartition(";")[2].split()
    done, of = said[said.index("of") - 1], said[said.index("of") + 1]
    assert done == of
    assert player.prepared.seconds == made.time_s


def test_a_schedule_of_one_s_own_is_simulated_where_one_says():
    own = registry.get("bcast", "chain").build(4)
    near, far = (explorers.schedule(own, on=f"star:4,lat={lat}") for lat in ("1us", "1ms"))
    assert far.prepared.seconds > 10 * near.prepared.seconds


def test_what_is_no_schedule_is_refused():
    with raises_code(DataError, "wrong-arguments"):
        explorers.schedule("ring")
    with raises_code(ScheduleError, "out-of-range", "1", "32"):
        explorers.schedule(registry.get("bcast", "chain").build(33))
