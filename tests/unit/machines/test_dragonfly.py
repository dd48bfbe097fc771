"""Dragonflies: what is read and refused, how they grow, what XML says, and what the routings do to a load."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines import models
from labkit.machines.spec import parse_spec
from labkit.machines.topologies.dragonfly import DragonflySpec
from labkit.machines.xml.writer import platform_xml
from tests.support.message_program import run_program
from tests.support.refusals import raises_code

#: Every host of a group sends to the host at the same place of the next group: all on one blue cable.
SHIFT = "dragonfly:8x1:1x1:8x1:2,bw=1GBps,lat=1us,model=raw"


def test_the_size_is_read_and_written() -> None:
    spec = parse_spec("dragonfly:4x4:3x4:5x1:2,routing=adaptive,seed=7")
    assert isinstance(spec, DragonflySpec)
    assert spec.counts == (4, 4, 3, 4, 5, 1, 2)
    assert (spec.hosts, spec.all_routers, spec.seed) == (120, 60, 7)
    assert str(spec) == "dragonfly:4x4:3x4:5x1:2,routing=adaptive,seed=7"
    assert spec.cables() == {"host": 120, "green": 12 * 10, "black": 4 * 5 * 3, "blue": 6}
    built = lk.platform(str(spec)).build(120)
    assert built.link_count == 2 * sum(spec.cables().values())
    assert repr(built) == "dragonfly 4x4:3x4:5x1:2 of 120 hosts, adaptive routing"


@pytest.mark.parametrize(
    ("text", "place", "code"),
    [
        ("dragonfly:4x4", 11, "malformed-specification"),
        ("dragonfly:4x4:3x4:5x1:2:2", 11, "malformed-specification"),
        ("dragonfly:4:3x4:5x1:2", 11, "malformed-specification"),
        ("dragonfly:4x4:3x4x1:5x1:2", 15, "malformed-specification"),
        ("dragonfly:4x4:3x4:5x0:2", 21, "malformed-specification"),
        ("dragonfly:4x4:3x4:5x1:2x2", 23, "malformed-specification"),
        ("dragonfly:1024x1:1x1:1024x1:2", 1, "out-of-range"),
        ("dragonfly:1x1:1x1:8192x1:1", 1, "out-of-range"),
        ("dragonfly,routing=random", 19, "unknown-name"),
        ("dragonfly,seed=3", 1, "conflicting-options"),
        ("dragonfly,routing=valiant,seed=-3", 32, "malformed-value"),
        ("star:4,routing=minimal", 8, "unknown-name"),
        ("dragonfly,bb_bw=1GBps", 11, "unknown-name"),
    ],
)
def test_refusals_point_at_the_place(text: str, place: int, code: str) -> None:
    with raises_code(PlatformError, code, f"at character {place}:"):
        lk.platform(text)


def test_half_a_size_is_refused() -> None:
    with raises_code(PlatformError, "missing-key"):
        DragonflySpec(groups=2, chassis=2, routers=2)


@pytest.mark.parametrize("ranks", [1, 2, 3, 16, 100, 1024, 4097, 2**20])
def test_unsized_ones_grow_to_the_next_power_of_two_and_stay_simgrids(ranks: int) -> None:
    machine = lk.platform("dragonfly")
    assert machine.hosts_for(ranks) == 2 ** (ranks - 1).bit_length()
    if ranks <= 4096:
        assert 'topology="DRAGONFLY"' in platform_xml(machine, ranks)


def test_xml_is_refused_where_simgrid_has_no_such_machine() -> None:
    with raises_code(PlatformError, "no-counterpart", "routing=valiant"):
        platform_xml(lk.platform("dragonfly:4x1:1x1:4x1:1,routing=valiant"), 16)
    with raises_code(PlatformError, "out-of-range", "9", "4"):
        platform_xml(lk.platform("dragonfly:9x1:2x1:4x1:1"), 16)


def shift(spec: str, bytes_: int = 1_000_000 - 16, groups: int = 1) -> float:
    """Everybody to the same place, some groups further; when the last one is done."""
    machine = lk.platform(spec)
    hosts = machine.hosts or 0
    step = hosts // 8 * groups
    text = "".join(
        f"{r}: sendrecv {(r + step) % hosts} 0 {bytes_} {(r - step) % hosts} 0 {bytes_}; mark\n"
        for r in range(hosts)
    )
    return max(marks[0] for marks in run_program(text, hosts, machine, "raw").marks)


def test_a_shift_by_a_group_fills_one_blue_cable_and_detours_relieve_it() -> None:
    minimal = shift(SHIFT)
    # 16 hosts of a group share the blue cable to the next one.
    assert minimal == pytest.approx(16 * 1e6 / 1e9, rel=1e-3)
    valiant = [shift(f"{SHIFT},routing=valiant,seed={seed}") for seed in range(5)]
    adaptive = [shift(f"{SHIFT},routing=adaptive,seed={seed}") for seed in range(5)]
    assert max(valiant) < 0.75 * minimal
    assert max(adaptive) < 0.75 * minimal
    assert len(set(valiant)) > 1
    assert shift(f"{SHIFT},routing=valiant,seed=3") == valiant[3]  # to the last bit
    assert shift(f"{SHIFT},routing=adaptive,seed=3") == adaptive[3]


def test_alone_adaptive_is_shortest_and_valiant_is_not() -> None:
    text = "0: send 127 0 1000000\n127: recv 0 0 1000000; mark\n"
    times = {
        routing: run_program(text, 128, lk.platform(f"{SHIFT},routing={routing}"), "raw").marks[127][0]
        for routing in ("minimal", "shortest", "valiant", "adaptive")
    }
    assert times["minimal"] == times["shortest"] == times["adaptive"] < times["valiant"]


def test_acknowledgements_go_back_by_the_messages_own_way() -> None:
    """On split cables they run in the other directions only, so a message alone is as fast without them."""
    text = "0: send 127 0 1000000; mark\n127: recv 0 0 1000000; mark\n"
    machine = lk.platform(f"{SHIFT},routing=valiant,seed=1")
    silent = models.get("cm02", cross_traffic=False)
    assert run_program(text, 128, machine, "cm02").marks == run_program(text, 128, machine, silent).marks


def total(comm: Any) -> float:
    return float(comm.allreduce(comm.rank))


@pytest.mark.parametrize("routing", ["minimal", "shortest", "valiant", "adaptive"])
def test_programs_run_on_every_routing(routing: str) -> None:
    run = lk.run(total, 20, on=f"dragonfly:3x2:2x1:3x1:2,routing={routing},limiter=2GBps")
    assert np.unique(run.results).tolist() == [190.0]


def everybody_elsewhere(comm: Any, n_bytes: int) -> None:
    step = comm.size // 2 + 1
    room = np.empty(n_bytes, np.uint8)
    comm.Sendrecv(room, (comm.rank + step) % comm.size, 0, room.copy(), (comm.rank - step) % comm.size, 0)


@pytest.mark.parametrize("routing", ["minimal", "valiant", "adaptive"])
def test_an_explanation_follows_the_ways_that_messages_took(routing: str) -> None:
    run = lk.run(
        everybody_elsewhere, 32, on=f"dragonfly:4x1:1x1:4x1:2,routing={routing}", args=(300_000,), trace=True
    )
    assert ("way" in run.trace.messages) == (routing != "minimal")
    found = run.explain().bottlenecks
    assert found.moved_error < 1e-6  # the rates along those ways move exactly the bytes that were sent
    assert found.instants > 0
    if routing == "valiant":
        assert (run.trace.messages["way"] > 0).sum() >= 24  # all that leave their group
