"""The critical path: without gaps from 0 to the makespan, and really critical."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.trace.explanation import critical_path


def exchange(comm, delays, count, rounds, is_blocking):
    """Pairs at growing distances, with a computation before each exchange."""
    p, r = comm.Get_size(), comm.Get_rank()
    out, back = np.zeros(count), np.empty(count)
    for k in range(rounds):
        lk.compute(seconds=delays[(r + k) % len(delays)])
        to, source = (r + k + 1) % p, (r - k - 1) % p
        if is_blocking:
            comm.Sendrecv(out, to, 0, back, source, 0)
        else:
            requests = [comm.Irecv(back, source), comm.Isend(out, to)]
            lk.compute(seconds=delays[k % len(delays)])
            for request in requests:
                request.Wait()
    comm.Allreduce(np.ones(1), np.empty(1))


MACHINES = ("star:8", "torus:2x4", "fattree:4x2:1x2:1x1")


@settings(max_examples=25, deadline=None)
@given(
    ranks=st.integers(1, 8),
    delays=st.lists(st.integers(0, 400).map(lambda u: u * 1e-6), min_size=1, max_size=5),
    count=st.sampled_from([0, 1, 1000, 9000, 40000]),
    rounds=st.integers(0, 4),
    machine=st.sampled_from(MACHINES),
    is_blocking=st.booleans(),
    model=st.sampled_from(["lab", "smpi", "raw"]),
)
def test_steps_follow_each_other_from_the_start_to_the_makespan(
    ranks, delays, count, rounds, machine, is_blocking, model
):
    run = lk.run(exchange, ranks, machine, args=(delays, count, rounds, is_blocking), trace=True, model=model)
    steps = critical_path(run.trace)
    now = 0.0
    for step in steps:
        assert step.begin_s == now
        assert step.end_s >= step.begin_s
        now = step.end_s
    assert now == run.makespan_s
    work = run.trace.computations
    for step in steps:
        if step.kind == "computation":
            own = work[(work["rank"] == step.rank) & (work["begin_s"] <= step.begin_s)]
            assert (own["end_s"] >= step.end_s).any()


def test_delay_on_the_path_delays_the_run_and_one_beside_it_does_not():
    def program(comm, extra):
        lk.compute(seconds=(3e-3 if comm.rank == 2 else 1e-3) + extra[comm.rank])
        comm.Barrier()

    def makespan(extra):
        return lk.run(program, 4, "star", args=(extra,)).makespan_s

    run = lk.run(program, 4, "star", args=([0.0] * 4,), trace=True)
    computed = [step for step in critical_path(run.trace) if step.kind == "computation"]
    assert [step.rank for step in computed] == [2]
    assert makespan([0, 0, 1e-3, 0]) == pytest.approx(run.makespan_s + 1e-3, rel=1e-12)
    assert makespan([1e-3, 1e-3, 0, 1e-3]) == run.makespan_s


def test_late_receiver_is_on_the_path():
    def program(comm):
        data = np.zeros(100_000)  # rendezvous: the sender waits for the receive
        if comm.rank == 0:
            comm.Send(data, 1)
        else:
            lk.compute(seconds=5e-3)
            comm.Recv(data, 0)

    steps = critical_path(lk.run(program, 2, "star", trace=True).trace)
    assert [(s.kind, s.rank) for s in steps if s.kind == "computation"] == [("computation", 1)]


def test_wait_for_a_probe_leads_on_by_the_probing_rank():
    def program(comm):
        if comm.rank == 0:
            lk.compute(seconds=2e-3)
            comm.Send(np.zeros(1), 1)
        else:
            comm.Probe(0)
            comm.Recv(np.empty(1), 0)

    run = lk.run(program, 2, "star", trace=True)
    assert (run.trace.waits["message"] == -1).sum() == 1
    assert critical_path(run.trace)[-1].end_s == run.makespan_s


def test_run_without_time_has_no_steps():
    assert critical_path(lk.run(lambda comm: None, 3, "star", trace=True).trace) == []
