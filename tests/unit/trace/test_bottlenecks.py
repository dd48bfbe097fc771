"""What held the transfers: checked against cases whose answer is known, and by conservation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.launch.run import run as run_program
from labkit.machines import models
from labkit.trace.explanation import WINDOW, find_bottlenecks


def analyzed(run, **options):
    machine, network = run.trace.setting
    built = machine.build(run.ranks)
    return find_bottlenecks(run.trace, built, network.build(), run.makespan_s, **options), built


def incast(comm, count):
    data = np.zeros(count)
    if comm.rank == 0:
        requests = [comm.Irecv(np.empty(count), source) for source in range(1, comm.size)]
        for request in requests:
            request.Wait()
    else:
        comm.Send(data, 0)


def scattered(comm, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4000, (comm.size, comm.size))
    lk.compute(seconds=float(rng.random() * 1e-4))
    mine, theirs = counts[comm.rank], counts[:, comm.rank]
    comm.Alltoallv([np.zeros(mine.sum()), mine], [np.empty(theirs.sum()), theirs])


def test_incast_is_held_by_the_receivers_link():
    run = run_program(incast, 5, on="star:5", args=(100_000,), trace=True, model="raw")
    found, built = analyzed(run)
    assert {built.link(int(link))[0] for link in found.link} == {"down 0"}
    assert found.link_held_s.sum() == pytest.approx(4 * 4 * 800_016 / 1.25e9, rel=1e-9)
    number = int(np.argmax(found.link_held_s))
    assert found.link_bytes[number] == pytest.approx(4 * 800_016)
    assert found.utilisation[number, 1:-1] == pytest.approx(1.0)


def test_transfer_alone_on_a_long_way_is_held_by_its_window():
    run = run_program(incast, 2, on="star:2,lat=10ms", args=(1_000_000,), trace=True, model="cm02")
    found, _ = analyzed(run)
    assert set(found.link.tolist()) == {WINDOW}


def test_transfer_alone_is_held_by_its_narrowest_link():
    run = run_program(incast, 2, on="star:2", args=(1_000_000,), trace=True, model="raw")
    found, built = analyzed(run)
    assert {built.link(int(link))[0] for link in found.link} <= {"up 1", "down 0"}


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    ranks=st.integers(1, 9),
    machine=st.sampled_from(["star:9", "torus:3x3", "fattree:3x3:1x2:1x1", "star:9,limiter=1.5GBps"]),
    model=st.sampled_from(["lab", "smpi", "lv08", "cm02", "raw"]),
    cross=st.booleans(),
)
def test_solved_rates_move_what_was_sent_and_no_link_carries_more_than_it_can(
    seed, ranks, machine, model, cross
):
    cross = cross and model != "raw"
    run = run_program(
        scattered,
        ranks,
        on=machine,
        args=(seed,),
        trace=True,
        model=models.get(model, cross_traffic=cross),
    )
    found, built = analyzed(run, bins=50)
    assert found.solved == found.instants
    assert found.moved_error < 1e-9
    capacity = np.array([built.link(i)[1] for i in range(built.link_count)])
    assert (found.utilisation <= 1 + 1e-9).all()
    carried = found.utilisation.sum(axis=1) * capacity * run.makespan_s / found.utilisation.shape[1]
    assert carried == pytest.approx(found.link_bytes, rel=1e-9, abs=1e-3)
    rows = run.trace.messages
    moving = (rows["arrived_s"] - rows["start_s"]).to_numpy() - found.latency_s
    held = np.bincount(found.transfer, found.seconds, minlength=len(rows))
    assert held == pytest.approx(np.maximum(moving, 0.0), rel=1e-9, abs=1e-12)


def test_limited_work_leaves_instants_out_and_says_so():
    run = run_program(scattered, 16, on="star:16", args=(1,), trace=True, coll={"alltoallv": "linear"})
    whole, _ = analyzed(run)
    part, _ = analyzed(run, work=500)
    assert 0 < part.solved < part.instants == whole.instants
    assert part.moved_error > 1e-6
    assert not np.isnan(part.utilisation).any()


def test_eager_message_ends_when_it_arrives_not_when_it_is_received():
    def program(comm):
        if comm.rank == 0:
            comm.Send(np.zeros(1000), 1)
        else:
            lk.compute(seconds=1e-2)
            comm.Recv(np.empty(1000), 0)

    run = run_program(program, 2, on="star:2", trace=True, model=models.get("smpi", eager_below_bytes=65536))
    row = run.trace.messages.iloc[0]
    assert row["arrived_s"] < 1e-3 < row["end_s"]
    assert analyzed(run)[0].moved_error < 1e-9
