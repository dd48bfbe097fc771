"""Weights of flows from a third rank: recovered where routes tell, assumed (with a sentence) where not."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit.calibration import from_measurements, with_shares
from labkit.errors import DataError
from labkit.machines import models
from tests.support.refusals import raises_code

LAT_US = 25


def tree(trunk_us):
    """Two hosts behind one switch, a third behind another: 2 links and 4."""
    cable, trunk = ({"bw": "125MBps", "lat": f"{lat}us"} for lat in (LAT_US, trunk_us))
    edges = [
        ("h0", "s0", cable),
        ("h1", "s0", cable),
        ("h2", "s1", cable),
        ("s0", "r", trunk),
        ("s1", "r", trunk),
    ]
    return lk.graph(edges, hosts=["h0", "h1", "h2"])


def two_hosts(model):
    return lk.calibrate(f"star:2,bw=125MBps,lat={LAT_US}us", model=model, points=20, repeats=3, refine=0)


@pytest.mark.parametrize("trunk_us", [0, 2, 5])
@pytest.mark.parametrize("weight", [0.0, 500.0, 2000.0, 20537.0])
@pytest.mark.parametrize("base", ["raw", "smpi"])
@pytest.mark.slow
def test_the_rates_of_near_and_far_are_those_of_the_weights(base, weight, trunk_us):
    """The oracle: w = lat + sum of S / bw; where two flows meet, their rates are as 1 / w."""
    model = models.get(base, weight_s_bytes=weight)
    lat, link = LAT_US * 1e-6, weight / 125e6
    expected = (2 * lat + 2 * trunk_us * 1e-6 + 4 * link) / (2 * lat + 2 * link)
    found = with_shares(two_hosts(model), tree(trunk_us), far_links=4, model=model, repeats=3)
    shares = found.fit.shares
    assert shares.ratio == pytest.approx(expected, rel=0.006)
    assert found.model.weight_s_bytes == shares.weight_s_bytes
    # The calibrated machine shares as the true one did, whatever its latency was measured to be.
    again = with_shares(found, tree_of(found), far_links=4, model=found.model, repeats=3)
    assert again.fit.shares.ratio == pytest.approx(expected, rel=0.01)
    if base == "raw":
        assert shares.weight_s_bytes == pytest.approx(weight, rel=0.02, abs=2.0)
        assert shares.latency_s == pytest.approx(2e-6 * trunk_us, rel=1e-3, abs=1e-12)


def tree_of(found):
    from labkit.calibration.reality import shaped_machine

    return shaped_machine((2, 1), found)


def test_where_time_and_links_grow_alike_the_weight_stays_assumed():
    model = models.get("raw", weight_s_bytes=2000.0)
    plain = two_hosts(model)
    found = with_shares(plain, tree(LAT_US), far_links=4, model=model, repeats=3)
    assert found.model.weight_s_bytes == plain.model.weight_s_bytes
    assert any("whatever S is" in text for text in found.warnings)


def test_more_than_links_can_say_stays_assumed_and_is_said():
    model = models.get("raw", weight_s_bytes=1e7)
    found = with_shares(two_hosts("raw"), tree(0), far_links=3, model=model, repeats=3)
    assert found.fit.shares.ratio > 1.9
    assert found.model.weight_s_bytes == models.get("smpi").weight_s_bytes
    assert "as assumed" in found.warnings[-1]


def test_the_third_rank_is_kept_in_the_files(tmp_path):
    found = with_shares(two_hosts("raw"), tree(0), far_links=4, model="raw", repeats=3)
    found.save(tmp_path)
    file = tmp_path / "calibrated.measurements.csv"
    again = from_measurements(file, far_links=4)
    assert again.fit.shares.ratio == pytest.approx(found.fit.shares.ratio, rel=1e-6)
    assert from_measurements(file).fit.shares is None
    assert "Weight S from a third rank, 4 links away" in (tmp_path / "calibrated.model.toml").read_text()
    assert "near beside far" in repr(again)


def test_one_call_does_both():
    found = lk.calibrate(tree(0), model="raw", points=20, repeats=3, refine=0, far_links=4)
    assert found.fit.shares.ratio == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("links", [2, 0, -1, 2.5, True, "4"])
def test_a_far_route_has_more_than_two_links(links):
    with raises_code(DataError, "out-of-range", "far_links", "2"):
        lk.calibrate("star:3", far_links=links)


def test_a_statistic_is_refused_before_anything_is_measured():
    with raises_code(DataError, "unknown-name", "statistic", "'mean'"):
        with_shares(two_hosts("raw"), "no machine at all", far_links=4, statistic="mean")


def test_measurements_without_a_third_rank_are_refused():
    with raises_code(DataError, "no-data"):
        from_measurements(two_hosts("raw").data, far_links=4)
