"""A replay explains itself as the run does that it was recorded of; noise acts on it, too."""

import json

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.cli.main import main
from labkit.errors import PlatformError
from labkit.sim.schedules import perform, simulate
from tests.support.refusals import raises_code


def _program(comm):
    rank, p = comm.rank, comm.size
    x, y = np.ones(20_000), np.empty(20_000)
    with lk.phase("local work"):
        lk.compute(flops=1e5 * (1 + rank % 3))
    with lk.phase("exchange"):
        comm.Sendrecv(x, (rank + 1) % p, 0, y, (rank - 1) % p, 0)
        with lk.phase("sum of all"):
            comm.Allreduce(x, y)
    half = comm.Split(rank % 2)
    with lk.phase("comm=4 in halves"):
        half.Bcast(x)
    comm.Barrier()


@pytest.mark.parametrize("on", ["star:8,bw=1Gbps", "torus:4x2", "fattree:4x2:1x2:1x2"])
def test_a_replay_has_the_phases_the_messages_and_the_explanation_of_the_run(tmp_path, on):
    run = lk.run(_program, 8, on, trace=True, trace_ti=tmp_path / "t")
    again = lk.replay(tmp_path / "t", on, trace=True)
    assert "#+ 0 phase begin comm=4 in halves" in (tmp_path / "t").read_text()
    assert again.phases.equals(run.phases)
    numbers = ["tag", "context"]  # of a collective's own messages: the engine's, not the program's
    assert again.trace.messages.drop(columns=numbers).equals(run.trace.messages.drop(columns=numbers))
    assert again.trace.waits.equals(run.trace.waits)
    first, second = run.explain(), again.explain()
    assert second.reasons.equals(first.reasons)
    assert second.links.equals(first.links)
    assert second.reading() == first.reading()
    assert second.reasons["seconds"].sum() == pytest.approx(again.makespan_s, rel=1e-9)


def test_ranks_that_share_a_core_are_said_to(tmp_path):
    """As in SimGrid 3.32: three computations of 1 s on two cores take 1.5 s there."""
    run = lk.run(
        lambda comm: lk.compute(flops=1e9), 6, "star:2,cores=2", mapping="block", trace_ti=tmp_path / "t"
    )
    again = lk.replay(tmp_path / "t", "star:2,cores=2", mapping="block", trace=True)
    said = [note for note in again.notes if "(3 ranks on 2 cores: up to 1.5 times slower)" in note]
    assert len(said) == 1
    assert said[0] in run.notes
    assert again.makespan_s == run.makespan_s == 1.5
    parts = again.explain().totals()
    assert parts["computation"] == pytest.approx(1.0)
    assert parts["shared cores (3 ranks on 2 cores)"] == pytest.approx(0.5)
    apart = lk.replay(tmp_path / "t", "star:3,cores=2")
    assert (apart.makespan_s, apart.notes) == (1.0, [])


def test_the_command_explains(tmp_path, capsys):
    lk.run(_program, 8, "star:8", trace_ti=tmp_path / "t")
    assert main(["replay", str(tmp_path / "t"), "--on", "torus:4x2", "--explain"]) == 0
    said = capsys.readouterr().out
    assert "the critical path is" in said
    assert "sum of all: " in said
    assert main(["replay", str(tmp_path / "t"), "--on", "star:8", "--explain", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["explanation"]["is_exact"]
    assert {row["phase"] for row in record["phases"]} == {
        "local work", "exchange", "sum of all", "comm=4 in halves"
    }  # fmt: skip


def test_goal_explains_itself(tmp_path):
    (tmp_path / "t.goal").write_text(
        "num_ranks 2\nrank 0 {\nl1: calc 1000\nl2: send 100000b to 1 tag 1\nl2 requires l1\n}\n"
        "rank 1 {\nl1: recv 100000b from 0 tag 1\n}\n"
    )
    run = lk.replay(tmp_path / "t.goal", "star:2", trace=True)
    assert run.explain().totals()["computation"] == pytest.approx(1e-6)


NOISES = ["jitter=20us,period=100us", "stragglers=2,slowdown=3", "links=3,bandwidth=0.2,latency=4"]


@pytest.mark.parametrize("noise", NOISES)
def test_noise_acts_on_a_replay_as_on_the_run(tmp_path, noise):
    quiet = lk.run(_program, 8, "star:8", trace_ti=tmp_path / "t")
    for seed in (0, 1):
        noisy = lk.run(_program, 8, "star:8", noise=noise, seed=seed)
        again = lk.replay(tmp_path / "t", "star:8", noise=noise, seed=seed, trace=True)
        assert again.makespan_s == pytest.approx(noisy.makespan_s, rel=1e-12)
        assert again.makespan_s > quiet.makespan_s
        assert again.machine["noise"] == noisy.machine["noise"]
        assert again.notes[-1].startswith("noise: ")
        assert again.explain().is_exact


@pytest.mark.parametrize("noise", NOISES)
def test_noise_acts_on_a_schedule_as_on_a_program(noise):
    schedule = registry.get("allreduce", "ring").build(8)
    coll = {"allreduce": "ring"}
    data = [{"send": np.ones(4096), "recv": np.empty(4096)} for _ in range(8)]

    def program(comm):
        comm.Allreduce(np.ones(4096), np.empty(4096))

    for seed in (0, 1):
        noisy = lk.run(program, 8, "star:8", coll=coll, noise=noise, seed=seed).makespan_s
        how = {"noise": noise, "seed": seed}
        assert simulate(schedule, "star:8", n_bytes=32768, element_bytes=8, **how).makespan_s == noisy
        assert perform(schedule, data, "star:8", op="sum", **how).makespan_s == noisy
    assert noisy > simulate(schedule, "star:8", n_bytes=32768, element_bytes=8).makespan_s
    with raises_code(PlatformError, "unknown-name"):
        simulate(schedule, "star:8", noise="loud=1")
