"""Which hosts of a machine a job gets: blocks of a torus, fragments, one rank a host or filled hosts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines.topologies.torus import compact_block
from tests.support.refusals import raises_code

JUQUEEN = "bw=1.8GBps,lat=40ns,cores=16,loopback_bw=10GBps,loopback_lat=100ns,model=bgq"
JUGENE = "bw=425MBps,lat=160ns,cores=4,loopback_bw=5GBps,loopback_lat=200ns,model=bgp"


def exchange(comm: Any, n_bytes: int) -> None:
    sent = lk.sized(comm.size * n_bytes)
    comm.Alltoall(sent, lk.sized(comm.size * n_bytes))


def where(comm: Any) -> int:
    return int(comm.rank)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=5).map(tuple),
    st.floats(0, 1, exclude_max=True),
)
def test_a_compact_block_lies_in_the_machine_and_holds_the_job(sizes: tuple[int, ...], share: float) -> None:
    hosts = 1 + int(share * math.prod(sizes))
    block = compact_block(sizes, hosts)
    assert all(b <= s and (b == s or b & (b - 1) == 0) for b, s in zip(block, sizes, strict=True))
    assert math.prod(block) >= hosts
    for axis, side in enumerate(block):  # halving any side would leave too few
        smaller = max((k for k in range(1, side) if k & (k - 1) == 0), default=0)
        assert math.prod(block) // side * smaller < hosts, axis


@pytest.mark.parametrize(
    ("name", "ranks", "n_bytes", "block", "links"),
    [("juqueen", 512, 800, "2x2x2x2x2", JUQUEEN), ("jugene", 256, 4096, "4x4x4", JUGENE)],
)
def test_the_default_of_a_blue_gene_is_a_compact_torus(
    name: str, ranks: int, n_bytes: int, block: str, links: str
) -> None:
    run = lk.run(exchange, ranks, name, args=(n_bytes,))
    explicit = lk.run(exchange, ranks, f"torus:{block},{links}", args=(n_bytes,))
    named = lk.run(exchange, ranks, name, args=(n_bytes,), shape=block)
    assert run.makespan_s == explicit.makespan_s == named.makespan_s
    whole = lk.run(exchange, ranks, name, args=(n_bytes,), shape="whole")
    assert whole.makespan_s > 3 * run.makespan_s  # the ranks fill the first dimension
    assert run.machine["shape"] == block
    hosts = math.prod(map(int, block.split("x")))
    assert (run.machine["used_hosts"], run.machine["most_ranks_on_a_host"]) == (hosts, ranks // hosts)
    assert f"hosts {hosts} (block: {ranks // hosts} ranks on each; a block of {block} hosts of" in repr(run)


def test_one_rank_a_host_or_filled_hosts() -> None:
    filled, spread = (lk.run(where, 144, "graphene", mapping=how) for how in (None, "block:1"))
    assert (filled.machine["used_hosts"], spread.machine["used_hosts"]) == (36, 144)
    assert "hosts 36 (block: 4 ranks on each)" in repr(filled)
    assert lk.run(where, 6, "graphene", mapping="block:4").machine["used_hosts"] == 2
    assert "hosts 2 (up to 4 ranks on each)" in repr(lk.run(where, 6, "graphene", mapping="block:4"))
    alone = lk.run(where, 64, "jugene", mapping="block:1")
    assert (alone.machine["shape"], alone.machine["used_hosts"]) == ("4x4x4", 64)
    assert lk.run(where, 64, "jugene", mapping="cyclic").machine["used_hosts"] == 64
    assert lk.platform("star,cores=4").mapped("block:1").hosts_for(10) == 10


def test_fragments_are_filled_hosts_anywhere() -> None:
    machine = lk.platform("torus:8x8x8,cores=4").mapped("fragmented:3")
    placed = machine.rank_hosts(40)
    assert np.array_equal(placed.reshape(10, 4), np.repeat(placed[::4, None], 4, axis=1))
    assert len(set(placed.tolist())) == 10
    assert placed.tolist() == machine.rank_hosts(40).tolist()
    assert (
        placed.tolist() != lk.platform("torus:8x8x8,cores=4").mapped("fragmented:4").rank_hosts(40).tolist()
    )
    assert machine.spec == "torus:8x8x8,cores=4"
    run = lk.run(where, 64, "jugene", mapping="fragmented:7")  # over all of the machine
    assert "shape" not in run.machine
    assert run.machine["used_hosts"] == 16
    within = lk.run(where, 64, "jugene", mapping="fragmented:7", shape="4x4x4")
    assert within.machine["shape"] == "4x4x4"


def test_other_tori_give_their_first_hosts_as_simgrid_does() -> None:
    machine = lk.platform("torus:8x8x8")
    assert machine.allocated(64) is machine
    assert machine.rank_hosts(64).tolist() == list(range(64))
    assert lk.platform("torus:8x8x8,shape=compact").allocated(64).description.size == "4x4x4"


def test_a_block_stays_what_it_was_where_the_run_is_repeated() -> None:
    run = lk.run(exchange, 64, "juqueen", args=(100,), trace=True)
    again = lk.run(exchange, 64, run.machine["platform"], args=(100,))
    assert again.makespan_s == run.makespan_s
    assert run.trace.setting[0].build(64).host_count == 4
    whole = lk.platform("juqueen")
    assert whole.hosts == 28_672


@pytest.mark.parametrize(
    ("on", "how", "wanted"),
    [
        ("juqueen", {"shape": "3x3"}, ("out-of-range", "shape=3x3", "28")),
        ("juqueen", {"shape": "29x1x1x1x1"}, ("out-of-range",)),
        ("juqueen", {"shape": "2x2x2x2x1"}, ("count-mismatch", "16", "32")),
        ("juqueen", {"shape": "wide"}, ("malformed-value",)),
        ("star:64,cores=8", {"shape": "compact"}, ("conflicting-options", "64", "cores=8")),
        ("juqueen", {"mapping": "block:0"}, ("malformed-value", "'0'")),
        ("star:4,cores=128", {"mapping": "block:100"}, ("count-mismatch", "512", "6", "4")),
    ],
)
def test_what_is_no_allocation_is_refused(on: str, how: dict[str, str], wanted: tuple[str, ...]) -> None:
    with raises_code(PlatformError, *wanted):
        lk.run(where, 512, on, **how)
