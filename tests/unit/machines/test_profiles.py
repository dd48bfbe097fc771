"""Speeds, bandwidths and latencies that change with time: closed forms, SimGrid's files, and refusals."""

from __future__ import annotations

import itertools
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit import MPI
from labkit.errors import DeadlockError, LabkitError, PlatformError
from labkit.machines.xml.reader import read_platform
from labkit.machines.zones.spec import zones_xml
from labkit.machines.zones.zone import Profile, read_profile
from tests.support.refusals import raises_code


def pair(**link: Any) -> lk.Zone:
    zone = lk.Zone("pair")
    zone.host("a", 1e9)
    zone.host("b", 1e9)
    zone.link("l", 1e8, 0.0, **link)
    zone.route("a", "b", ["l"])
    return zone


def value_at(profile: Profile, now: float, initial: float) -> float:
    """The definition, step by step."""
    value = initial
    for cycle in range(int(now / profile.period_s) + 1 if profile.period_s else 1):
        for at, new in profile.steps:
            if at + cycle * profile.period_s <= now * (1 + 1e-12):
                value = new
    return value


def change_times(profile: Profile, until: float) -> list[float]:
    cycles = range(int(until / profile.period_s) + 2 if profile.period_s else 1)
    times = [at + cycle * profile.period_s for cycle in cycles for at, _ in profile.steps]
    return [at for at in times if at < until]


def done(profile: Profile, begin: float, end: float, initial: float = 1.0) -> float:
    """What is done between two times, by the definition."""
    times = [begin, *(at for at in change_times(profile, end) if at > begin), end]
    return math.fsum(
        (b - a) * value_at(profile, (a + b) / 2, initial) for a, b in itertools.pairwise(times) if b > a
    )


@st.composite
def profiles(draw: Any) -> Profile:
    gaps = draw(st.lists(st.floats(0.01, 2.0), min_size=1, max_size=4))
    first = draw(st.sampled_from([0.0, 0.3]))
    times = [first + sum(gaps[:i]) for i in range(len(gaps))]
    values = draw(st.lists(st.floats(0.1, 3.0), min_size=len(times), max_size=len(times)))
    period = draw(st.sampled_from([0.0, times[-1] - first + 0.25]))
    return Profile(tuple(zip(times, values, strict=True)), period)


@settings(max_examples=40, deadline=None)
@given(profiles(), st.floats(0.0, 5.0), st.floats(0.01, 20.0))
def test_a_computation_takes_as_long_as_the_speed_says(
    profile: Profile, begin: float, seconds: float
) -> None:
    zone = lk.Zone("alone")
    zone.host("a", 1e9, speed_profile=profile)

    def program(comm: Any) -> float:
        time.sleep(begin)
        started = MPI.Wtime()
        lk.compute(seconds=seconds)
        return MPI.Wtime() - started

    run = lk.run(program, 1, on=lk.platform(zone), model="raw")
    (took,) = run.results
    assert done(profile, begin, begin + took) == pytest.approx(seconds, rel=1e-6, abs=1e-7)


@settings(max_examples=40, deadline=None)
@given(profiles(), st.integers(1, 3), st.floats(0.1, 5.0))
def test_messages_move_as_fast_as_the_link_at_each_time(profile: Profile, flows: int, load: float) -> None:
    """All messages together have the link; none is faster than it was when it began, as in SimGrid."""
    whole = Profile(tuple((at, 1e8 * value) for at, value in profile.steps), profile.period_s)
    size = int(load * 1e8 / flows)

    def program(comm: Any) -> None:
        if comm.rank == 0:
            requests = [comm.Isend(lk.sized(size, "B"), 1, tag) for tag in range(flows)]
        else:
            requests = [comm.Irecv(lk.sized(size, "B"), 0, tag) for tag in range(flows)]
        for request in requests:
            request.Wait()

    run = lk.run(program, 2, on=lk.platform(pair(bw_profile=whole)), model="raw")
    most = flows * value_at(whole, 0.0, 1e8)
    used = Profile(tuple((at, min(value, most)) for at, value in whole.steps), whole.period_s)
    assert done(used, 0.0, run.makespan_s, 1e8) == pytest.approx(
        flows * (size + 16), rel=1e-6
    )  # and envelopes


def test_a_message_begins_with_the_latency_of_its_time() -> None:
    zone = pair(lat_profile="1 0.5\n3 0.25")

    def program(comm: Any) -> list[float]:
        seen = []
        for _ in range(5):
            begin = MPI.Wtime()
            if comm.rank == 0:
                comm.Ssend(np.zeros(0), 1)
                comm.Recv(np.zeros(0), 1)
            else:
                comm.Recv(np.zeros(0), 0)
                comm.Ssend(np.zeros(0), 0)
            seen.append(MPI.Wtime() - begin)
            lk.compute(seconds=1.0)
        return seen

    first, second, *_, last = lk.run(program, 2, on=lk.platform(zone), model="raw").results[0]
    assert first == pytest.approx(0.0, abs=1e-6)
    assert second >= 0.5
    assert last == pytest.approx(2 * 0.25, abs=1e-6)


def test_a_profile_without_end_does_not_keep_a_run_from_ending() -> None:
    zone = pair(bw_profile="PERIODICITY 1e-3\n0 1e8\n5e-4 5e7")
    with pytest.raises(DeadlockError):
        lk.run(lambda comm: comm.recv(source=1 - comm.rank), 2, on=lk.platform(zone), timeout_s=60)
    run = lk.run(lambda comm: lk.compute(seconds=1e6), 2, on=lk.platform(zone), timeout_s=60)
    assert run.makespan_s == 1e6


def test_an_explanation_knows_the_bandwidths(tmp_path: Path) -> None:
    """The trace's transfers are moved again at the rates of their times: nothing is left over."""
    zone = pair(bw_profile="PERIODICITY 0.02\n0 1e8\n0.01 2e7")

    def program(comm: Any) -> None:
        for _ in range(4):
            if comm.rank == 0:
                comm.Ssend(lk.sized(10**6, "B"), 1)
            else:
                comm.Recv(lk.sized(10**6, "B"), 0)

    run = lk.run(program, 2, on=lk.platform(zone), trace=True, model="raw")
    explained = run.explain()
    assert "l" in str(explained)


def test_simgrids_files_are_read_and_written_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "speed").write_text("# load\nPERIODICITY 12\n4.0 0.5\n8.0 1\n")
    (tmp_path / "bandwidth").write_text("0 5e7\n")
    text = (
        '<?xml version="1.0"?>\n<platform version="4.1"><zone id="z" routing="Full">'
        '<host id="a" speed="1Gf" speed_file="profiles/speed"/><host id="b" speed="1Gf"/>'
        '<link id="l" bandwidth="100MBps" latency="1us" bandwidth_file="bandwidth"/>'
        '<link id="m" bandwidth="100MBps" sharing_policy="SPLITDUPLEX"/>'
        '<route src="a" dst="b"><link_ctn id="l"/><link_ctn id="m" direction="UP"/></route></zone>'
        '<trace id="t" periodicity="3">\n1 2e-6\n2 1e-6\n</trace>'
        '<trace_connect trace="t" element="m_UP" kind="LATENCY"/></platform>'
    )
    path = tmp_path / "p.xml"
    path.write_text(text)
    machine = lk.platform(path)
    root = machine.description.root  # type: ignore[attr-defined]
    assert root.members[0].speed_profile == Profile(((4.0, 0.5), (8.0, 1.0)), 12.0)
    assert root.links[0].bw_profile == Profile(((0.0, 5e7),))
    assert root.links[1].lat_profile == Profile(((1.0, 2e-6), (2.0, 1e-6)), 3.0)
    again = tmp_path / "again.xml"
    again.write_text(zones_xml(root))
    assert read_platform(again)[0] == machine.description
    (tmp_path / "bandwidth").write_text("0 4e7\n")
    assert lk.platform(path).description != machine.description


def test_simgrids_two_kinds_of_periods() -> None:
    """Measured with SimGrid 3.32: after 3 comes 5 with PERIODICITY 4, and 8 with LOOPAFTER 4."""
    assert read_profile("1 0.5\n3 1\nPERIODICITY 4") == Profile(((1.0, 0.5), (3.0, 1.0)), 4.0)
    assert read_profile("1 0.5\n3 1\nLOOPAFTER 4") == Profile(((1.0, 0.5), (3.0, 1.0)), 7.0)


def test_a_profile_outside_of_the_platforms_folder_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("0 1\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    path = inner / "p.xml"
    path.write_text(
        '<platform version="4.1"><zone id="z" routing="Full">'
        '<host id="a" speed="1Gf" speed_file="../secret"/></zone></platform>'
    )
    with raises_code(PlatformError, "malformed-line", "../secret"):
        lk.platform(path)


@pytest.mark.parametrize(
    "text",
    ["", "1 2\n1 3", "-1 2", "0 nan", "0 -1", "PERIODICITY 1\n0 1\n1 2", "0 1 2", "PERIODICITY 1e-9\n0 1"],
)
def test_bad_profiles_are_refused(text: str) -> None:
    with pytest.raises(PlatformError):
        read_profile(text)


def test_hosts_with_more_ranks_than_cores_have_one_speed() -> None:
    zone = lk.Zone("alone")
    zone.host("a", 1e9, speed_profile="0 0.5")
    with pytest.raises(LabkitError):
        lk.run(lambda comm: lk.compute(seconds=1), 2, on=lk.platform(zone))
