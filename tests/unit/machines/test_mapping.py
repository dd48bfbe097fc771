"""Ranks on hosts: block, cyclic, random, listed; what is refused, and what a run records."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import MachineError, PlatformError
from labkit.machines.mapping import mapping_of
from labkit.machines.xml.writer import host_file
from tests.support.refusals import raises_code


def test_block_fills_host_by_host_and_cyclic_goes_round() -> None:
    machine = lk.platform("star:3,cores=2")
    assert machine.mapped("block").rank_hosts(5).tolist() == [0, 0, 1, 1, 2]
    assert machine.mapped("cyclic").rank_hosts(5).tolist() == [0, 1, 2, 0, 1]
    assert machine.mapped("block").rank_hosts(9).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert lk.platform("star:3,cores=2,mapping=cyclic").rank_hosts(4).tolist() == [0, 1, 2, 0]
    assert machine.mapped(None) is machine


@pytest.mark.parametrize("ranks", [1, 7, 24, 30])
def test_random_takes_every_core_at_most_as_often_as_it_must_and_repeats(ranks: int) -> None:
    machine = lk.platform("star:6,cores=4")
    places = [tuple(machine.mapped(f"random:{seed}").rank_hosts(ranks).tolist()) for seed in range(20)]
    for place in places:
        assert max(Counter(place).values()) <= max(4, -(-ranks // 6))
        assert set(place) <= set(range(6))
    assert len(set(places)) == (6 if ranks == 1 else 20)
    again = machine.mapped(mapping_of("random:3")).rank_hosts(ranks).tolist()
    assert again == list(places[3])


def test_random_is_the_same_on_every_machine_and_release() -> None:
    # PCG64's raw stream of seed 7, sorted: computed once and pinned here.
    placed = lk.platform("star:8,mapping=random:7").rank_hosts(8).tolist()
    assert placed == [6, 3, 4, 0, 2, 7, 5, 1]


def test_a_list_gives_each_rank_its_host_and_may_be_longer_than_the_run() -> None:
    machine = lk.platform("torus:2x2").mapped([3, 3, 1, 0, 2])
    assert machine.rank_hosts(4).tolist() == [3, 3, 1, 0]
    assert lk.platform("star").mapped(np.array([4, 0])).hosts_for(2) == 5
    with raises_code(PlatformError, "count-mismatch", "5", "6"):
        machine.rank_hosts(6)
    with raises_code(PlatformError, "out-of-range", "rank 1", "7", "0", "3"):
        lk.platform("torus:2x2").mapped([0, 7]).build(2)


def test_a_file_names_hosts_by_number_or_name(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# where they are\nhost-2\n\n0:3   # three\n1\n")
    assert lk.platform("star:3").mapped(path).rank_hosts(5).tolist() == [2, 0, 0, 0, 1]
    assert str(lk.platform("star:3").mapped(str(path)).mapping) == str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code", "facts"),
    [
        ("0\nhost-9\n", "out-of-range", ["line 2", "9"]),
        ("0\n\nthere\n1", "unknown-name", ["line 3", "'there'"]),
        ("0\n-1\n1", "unknown-name", ["line 2", "'-1'"]),
        ("0 1\n", "unknown-name", ["line 1", "'0 1'"]),
        ("0\n1:x\n", "malformed-value", ["line 2", "'x'"]),
        ("0\n1:0\n", "malformed-value", ["line 2", "'0'"]),
        ("0\n1:99999999\n", "out-of-range", ["line 2", "2^20"]),
        ("# nothing\n", "malformed-file", []),
        ("0\n1", "count-mismatch", ["2", "3"]),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(
    tmp_path: Path, text: str, code: str, facts: list[str]
) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    with raises_code(PlatformError, code, str(path), *facts):
        lk.run(barrier, 3, on="star:3", mapping=path)


@pytest.mark.parametrize(
    "mapping",
    ["spread", "random:x", "random:-1", "", 7, [], [0.5], [[0]], object(), b"x", "a\0b", {0: 1}],
)
def test_what_is_no_mapping_is_refused_with_what_is_allowed(mapping: Any) -> None:
    with pytest.raises(PlatformError, match=r"block, cyclic, random|random:7"):
        lk.run(barrier, 2, on="star:2", mapping=mapping)


def test_specifications_take_the_mappings_that_need_no_file() -> None:
    for text in ("star:4,mapping=block", "torus:2x2,mapping=cyclic", "fattree:4:1:1,mapping=random:12"):
        assert lk.platform(text).spec == text
    assert lk.platform("star:4,mapping=random").spec == "star:4,mapping=random:0"
    with raises_code(PlatformError, "unknown-name", "character 16"):
        lk.platform("star:4,mapping=hosts.txt")


def barrier(comm: Any) -> int:
    comm.Barrier()
    return int(comm.rank)


def exchange(comm: Any, n_bytes: int) -> None:
    data, room = np.zeros(n_bytes, np.uint8), np.empty(n_bytes, np.uint8)
    other = comm.rank ^ 1
    comm.Sendrecv(data, other, 0, room, other, 0)


def test_more_ranks_than_cores_need_a_mapping_and_the_run_says_so() -> None:
    with raises_code(PlatformError, "too-many-ranks"):
        lk.run(barrier, 5, on="star:4")
    run = lk.run(barrier, 5, on="star:4", mapping="cyclic")
    assert run.machine["mapping"] == "cyclic"
    assert run.machine["most_ranks_on_a_host"] == 2
    assert any("(2 ranks on 1 core: up to 2 times slower)" in note for note in run.notes)
    assert "ranks on hosts cyclic" in repr(run)
    listed = lk.run(barrier, 2, on="star:4", mapping=[3, 1])
    assert listed.machine["rank_hosts"] == [3, 1]
    assert not listed.notes


def test_neighbors_on_one_host_use_its_loopback_and_apart_they_share_its_cable() -> None:
    spec = "star:2,cores=2,bw=1GBps,lat=1us,loopback_bw=10GBps,loopback_lat=100ns,model=raw"
    size = 1_000_000 - 16
    together = lk.run(exchange, 4, on=spec, args=(size,), mapping="block")
    apart = lk.run(exchange, 4, on=spec, args=(size,), mapping="cyclic")
    # Within a host each message has the whole loopback; across, two ranks of a host share one cable each way.
    assert together.makespan_s == pytest.approx(100e-9 + 1e6 / 10e9, rel=1e-12)
    assert apart.makespan_s == pytest.approx(2e-6 + 2 * 1e6 / 1e9, rel=1e-12)


def test_real_machines_take_no_mapping() -> None:
    with raises_code(MachineError, "conflicting-options"):
        lk.run(barrier, 2, on="mpi", mapping="cyclic")


def test_schedules_and_host_files_follow_the_mapping() -> None:
    assert host_file(lk.platform("star:2,cores=2,mapping=cyclic"), 3) == "host-0\nhost-1\nhost-0\n"
    machine = lk.platform("star:4").mapped([2, 2])
    assert machine.build(2).rank_hosts == [2, 2]
    assert machine == lk.platform("star:4").mapped((2, 2)) != lk.platform("star:4")


@pytest.mark.slow
def test_the_command_line_takes_it(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    (tmp_path / "hosts").write_text("0\n1\n9\n")
    base = [sys.executable, "-m", "labkit", "run", "-n", "3", "--on", "star:3", "--json", "--mapping"]
    good = subprocess.run(
        [*base, "random:5", "p.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(good.stdout)["machine"]["mapping"] == "random:5"
    bad = subprocess.run([*base, "hosts", "p.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert bad.returncode != 0
    assert "hosts, line 3: host 9 is not there" in bad.stdout + bad.stderr
