"""Noise: what it does to clocks by hand, that it repeats, and what it does to a verdict."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import labkit as lk
from labkit.errors import MachineError, PlatformError
from labkit.machines.noise import Noise, noise_of
from tests.support.refusals import raises_code


def work(comm: lk.MPI.Comm, seconds: float = 0.1) -> float:
    lk.compute(seconds=seconds)
    return float(lk.MPI.Wtime())


def test_detours_take_their_share_of_working_time() -> None:
    run = lk.run(work, 200, "star", noise=Noise(jitter_s=50e-6, period_s=1e-3))
    lost = np.array(run.results) / 0.1 - 1
    assert lost.mean() == pytest.approx(0.05 / (1 - 0.05), rel=0.05)  # detours meet the longer work, too
    assert lost.std() > 0
    assert lost.min() > 0.02


def test_a_rank_that_waits_does_not_notice() -> None:
    def late(comm: lk.MPI.Comm) -> None:
        if comm.rank == 0:
            lk.compute(seconds=0.05)
        comm.Barrier()

    noise = Noise(jitter_s=100e-6, period_s=1e-3, seed=4)
    quiet = lk.run(late, 2, "star:2", model="raw").makespan_s
    noisy = lk.run(late, 2, "star:2", model="raw", noise=noise).makespan_s
    alone = lk.run(lambda comm: work(comm, 0.05), 1, "star:2", model="raw", noise=noise).makespan_s
    assert noisy == pytest.approx(alone + quiet - 0.05, rel=1e-3)


def test_the_noise_is_the_same_for_every_program_and_of_every_division_of_the_work() -> None:
    """Detours are a function of seed, rank and time: work cut into pieces ends when the whole does."""

    def pieces(comm: lk.MPI.Comm) -> float:
        for _ in range(1000):
            lk.compute(seconds=1e-4)
        return float(lk.MPI.Wtime())

    noise = Noise(jitter_s=100e-6, period_s=1e-3, seed=1)
    whole, cut = (lk.run(p, 4, "star:4", noise=noise).results for p in (work, pieces))
    np.testing.assert_allclose(whole, cut, rtol=1e-9)


def test_overheads_of_messages_meet_detours_too() -> None:
    def chat(comm: lk.MPI.Comm) -> None:
        for _ in range(2000):
            comm.Sendrecv(bytearray(8), 1 - comm.rank, 0, bytearray(8), 1 - comm.rank, 0)

    quiet = lk.run(chat, 2, "star:2").makespan_s
    assert lk.run(chat, 2, "star:2", noise="jitter=100us,period=1ms").makespan_s > 1.02 * quiet
    assert lk.run(chat, 2, "star:2", model="smpi", noise="jitter=100us").makespan_s == (
        lk.run(chat, 2, "star:2", model="smpi").makespan_s
    )


def test_stragglers_are_drawn_and_recorded() -> None:
    run = lk.run(work, 16, "star:16", noise=Noise(stragglers=3, slowdown=1.5))
    slow = run.machine["noise"]["slow_hosts"]
    assert len(slow) == 3
    times = np.array(run.results)
    assert np.flatnonzero(times > 0.14).tolist() == slow
    assert times[slow] == pytest.approx(0.15, abs=1e-6)
    assert any("3 of hosts 1.5 times slower" in note for note in run.notes)
    everyone = lk.run(work, 8, "star:4,cores=2", noise=Noise(stragglers=0.5))
    assert len(everyone.machine["noise"]["slow_hosts"]) == 2
    assert (np.array(everyone.results) > 0.15).sum() == 4  # both ranks of a host


def test_degraded_links_slow_what_crosses_them() -> None:
    def ping(comm: lk.MPI.Comm) -> None:
        if comm.rank == 0:
            comm.Send(bytearray(10**6), 1)
        elif comm.rank == 1:
            comm.Recv(bytearray(10**6), 0)

    on = "star:2,bw=1GBps,lat=10us"
    quiet = lk.run(ping, 2, on, model="raw").makespan_s
    worse = lk.run(ping, 2, on, model="raw", noise=Noise(links=1.0, bandwidth=0.25, latency=3.0))
    assert quiet == pytest.approx(2e-5 + 1_000_016e-9, rel=1e-12)
    assert worse.makespan_s == pytest.approx(3 * 2e-5 + 4 * 1_000_016e-9, rel=1e-12)
    assert len(worse.machine["noise"]["degraded_links"]) == 4
    one = lk.run(ping, 2, on, model="raw", noise=Noise(links=1, bandwidth=0.5, seed=0))
    assert len(one.machine["noise"]["degraded_links"]) == 1


@pytest.mark.parametrize("on", ["torus:4x4", "fattree:4x4:1x2:1x1", "dragonfly:2x1:2x1:2x1:2"])
def test_every_topology_can_be_degraded(on: str) -> None:
    def exchange(comm: lk.MPI.Comm) -> None:
        comm.Alltoall(bytearray(comm.size * 10_000), bytearray(comm.size * 10_000))

    quiet = lk.run(exchange, 16, on).makespan_s
    assert lk.run(exchange, 16, on, noise="links=25%,bandwidth=0.1").makespan_s > quiet
    nothing = lk.run(exchange, 16, on, noise="links=25%,bandwidth=1,latency=1")
    assert nothing.makespan_s == quiet


def test_an_explanation_knows_the_degraded_links() -> None:
    def exchange(comm: lk.MPI.Comm) -> None:
        comm.Alltoall(bytearray(comm.size * 100_000), bytearray(comm.size * 100_000))

    noise = Noise(links=3, bandwidth=0.1, jitter_s=1e-4)
    run = lk.run(exchange, 8, "star:8", model="raw", noise=noise, trace=True)
    explained = str(run.explain())
    assert "does not know" not in explained
    assert any(f"bottleneck is {link}" in explained for link in run.machine["noise"]["degraded_links"])


def test_the_same_seed_gives_the_same_bits_and_another_seed_another_run() -> None:
    def program(comm: lk.MPI.Comm) -> None:
        for _ in range(10):
            lk.compute(seconds=1e-3)
            comm.allreduce(comm.rank)

    def times(seed: int, noise_seed: int | None = None) -> float:
        how = Noise(jitter_s=1e-4, stragglers=1, links=2, seed=noise_seed)
        return lk.run(program, 8, "star:8", noise=how, seed=seed).makespan_s

    assert times(1) == times(1) != times(2)
    assert times(1, 5) == times(2, 5)


def test_without_noise_nothing_changes() -> None:
    quiet = lk.run(work, 4, "star:4")
    assert lk.run(work, 4, "star:4", noise=Noise()).makespan_s == quiet.makespan_s
    assert "noise" not in quiet.machine
    assert not quiet.notes
    assert Noise().is_quiet


def test_the_text_form() -> None:
    text = "jitter=50us,period=2ms,stragglers=1%,slowdown=3,links=4,bandwidth=0.5,latency=2,seed=9"
    wanted = Noise(jitter_s=5e-5, period_s=2e-3, stragglers=0.01, slowdown=3, links=4, bandwidth=0.5,
                   latency=2, seed=9)  # fmt: skip
    assert Noise.parse(text) == noise_of(text) == wanted
    assert dataclasses.asdict(wanted) == dataclasses.asdict(Noise.parse(text))
    assert str(wanted) == (
        "detours of 50us every 2ms; 1 % of hosts 3 times slower; "
        "4 of links with 0.5 of the bandwidth and 2 times the latency; seed 9"
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("jitter", ("malformed-specification", "NAME", "VALUE")),
        ("hum=3", ("unknown-name", "'hum=3'")),
        ("jitter=50", ("malformed-value",)),
        ("slowdown=fast", ("malformed-value",)),
        ("slowdown=0.5", ("wrong-arguments", "1")),
        ("jitter=1ms", ("wrong-arguments", "period_s")),
        ("links=1.5", ("wrong-arguments", "1")),
        ("bandwidth=0", ("wrong-arguments", "0")),
        ("links=100", ("out-of-range", "100", "8")),
        ("stragglers=5", ("out-of-range", "5", "4")),
    ],
)
def test_noise_that_makes_no_sense_is_refused(text: str, wanted: tuple[str, ...]) -> None:
    with raises_code(PlatformError, *wanted):
        lk.run(work, 4, "star:4", noise=text)


def test_noise_belongs_to_simulated_machines() -> None:
    with raises_code(MachineError, "conflicting-options"):
        lk.run(work, 2, "mpi", noise=Noise(jitter_s=1e-5))
    with raises_code(PlatformError, "wrong-type"):
        lk.run(work, 2, "star:2", noise=3)


def tree_sum(comm: lk.MPI.Comm) -> None:
    """Work between allreduces: log p with quiet processors, and p-dependent idling with noisy ones."""
    for _ in range(20):
        lk.compute(seconds=2e-5)
        comm.allreduce(comm.rank)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "is_clear"),
    [(None, True), (Noise(jitter_s=1e-6, period_s=1e-3), True), (Noise(jitter_s=5e-3, period_s=5e-2), False)],
    ids=["quiet", "short and often", "long and rare"],
)
def test_what_noise_does_to_a_verdict(noise: Noise | None, is_clear: bool) -> None:
    """Short detours meet every rank alike; a long one meets some rank the likelier the more there are."""
    study = lk.sweep(
        tree_sum, ranks=[4, 8, 16, 32, 64, 128], repeats=5,
        options={"noise": noise, "coll": {"allreduce": "recursive_doubling"}},
    )  # fmt: skip
    verdict = study.expect("log p", metric="makespan_s")
    assert (verdict.match == "exact") == is_clear, verdict
    assert len(study.data.query("metric == 'makespan_s' and ranks == 4")) == (1 if noise is None else 5)
