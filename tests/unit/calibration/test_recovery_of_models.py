"""Calibrating a simulated machine gives its model back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.calibration.experiments import Plan, measure_plan
from labkit.machines import models
from labkit.machines.models import NetworkModel

LINK = "star:2,bw=125MBps,lat=12us"


def round_trips(sizes, on, model):
    plan = Plan(tuple(sizes), 1, ("pingpong",))
    rows = lk.run(measure_plan, 2, on, args=(plan,), model=model).results[0]["rows"]
    return {row[1]: row[3] for row in rows}


def errors(found, on, model, sizes):
    """Relative errors of the calibrated machine's round trips."""
    truth = round_trips(sizes, on, model)
    again = round_trips(sizes, found.star(2), found.model)
    return np.array([again[size] / truth[size] - 1 for size in sizes])


@pytest.fixture(scope="module")
def lab():
    return lk.calibrate(LINK, model="lab", repeats=3)


@pytest.mark.slow
def test_breaks_of_the_default_model_are_found(lab):
    """257, 732 (0.2 % of a message, not worth a break), 1426, ... are sizes with the envelope."""
    wanted = [257, 1426, 3484, 5776, 9376, 15424, 65472]
    found = lab.fit.curves["wire"].breakpoints
    assert len(found) == len(wanted)
    for (low, high), place in zip(found, wanted, strict=True):
        assert low <= place * 1.005
        assert high >= place * 0.995
        assert high - low < 0.08 * place + 2


def test_overheads_of_the_default_model_are_found(lab):
    truth = models.get("lab")
    for name in ("send_overhead", "recv_overhead"):
        rows, wanted = getattr(lab.model, name), getattr(truth, name)
        assert rows[0] == pytest.approx(wanted[0], rel=1e-6)
        assert rows[1][1:] == pytest.approx(wanted[1][1:], rel=1e-6)
        assert rows[1][0] == pytest.approx(1420, rel=0.02)
    assert lab.model.detached_below_bytes == 65536
    assert lab.model.eager_below_bytes == 0
    assert lab.model.cross_traffic is True


def test_messages_of_other_sizes_are_predicted(lab):
    sizes = np.unique(np.geomspace(1, 4e6, 97).astype(int)).tolist()
    off = np.abs(errors(lab, LINK, "lab", sizes))
    assert np.median(off) < 1e-6
    assert np.max(off) < 0.005


def test_a_simulated_machine_is_quiet(lab):
    assert lab.warnings == []


@st.composite
def network_models(draw):
    """One to three sections, thresholds and overheads in any combination."""
    n = draw(st.integers(0, 2))
    places = [0]
    for _ in range(n):
        places.append(int(max(places[-1], 30) * draw(st.floats(15, 60))))
    level, factors, rates = 1.0, [], []
    for _ in places:
        factors.append(level)
        rates.append(draw(st.floats(0.5, 1.0)))
        level *= draw(st.floats(1.4, 2.5))
    limit = draw(st.sampled_from([0, 4096, 65536]))
    cost = draw(st.sampled_from([(), ((0, 2e-6, 1e-10),), ((0, 8e-6, 0.0), (2000, 1.6e-5, 0.0))]))
    return NetworkModel(
        "truth", weight_s_bytes=8775.0, tcp_gamma_bytes=4194304.0,
        latency_factor=tuple(zip(places, factors, strict=True)),
        bandwidth_factor=tuple(zip(places, rates, strict=True)),
        detached_below_bytes=limit, eager_below_bytes=draw(st.sampled_from([0, limit])),
        send_overhead=cost, isend_overhead=cost, recv_overhead=cost,
        cross_traffic=draw(st.booleans()),
    )  # fmt: skip


@settings(max_examples=8, deadline=None)
@given(network_models())
@pytest.mark.slow
def test_any_model_is_recovered(truth):
    found = lk.calibrate(LINK, model=truth, repeats=3, max_bytes=1_000_000)
    assert found.model.detached_below_bytes == truth.detached_below_bytes
    assert found.model.eager_below_bytes == truth.eager_below_bytes
    assert found.model.cross_traffic is truth.cross_traffic
    assert found.fit.sharing == "splitduplex"
    sizes = np.unique(np.geomspace(2, 9e5, 61).astype(int)).tolist()
    off = np.abs(errors(found, LINK, truth, sizes))
    assert np.median(off) < 1e-5
    assert np.quantile(off, 0.95) < 0.01


def test_links_that_both_directions_share_are_seen():
    found = lk.calibrate("star:2,sharing=shared", model="raw", points=20, repeats=3, refine=0)
    assert found.fit.sharing == "shared"


@pytest.mark.parametrize(("model", "is_crossing"), [("smpi", True), ("raw", False)])
def test_two_pairs_of_ranks_see_what_one_way_costs_the_other(model, is_crossing):
    found = lk.calibrate(
        "star:2,cores=2,mapping=cyclic", model=model, points=20, repeats=3, refine=0, pairs=2
    )
    assert found.model.cross_traffic is is_crossing
    times = found.data[found.data["bytes"] == 4_000_000].groupby("experiment")["sender_s"].median()
    assert times["opposed"] / times["alone"] == pytest.approx(1.05 if is_crossing else 1.0, abs=0.002)
