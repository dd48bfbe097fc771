"""A trace of real MPI: the messages of the simulated run, each matched once, and what ranks did when."""

import json
import re

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.cli.main import main
from labkit.errors import DataError
from labkit.plot.sends_figure import payloads
from labkit.trace.activity import activity
from labkit.trace.explanation import critical_path
from tests.support.refusals import raises_code

pytestmark = pytest.mark.mpi


def _entered(comm):
    """Phases that compute much, little and nothing, in each other and after each other."""
    for step in range(3):
        with lk.phase("step"):
            sum(range(10_000))
            with lk.phase("halo"):
                comm.Sendrecv(
                    np.ones(8), (comm.rank + 1) % comm.size, 0, np.empty(8), (comm.rank - 1) % comm.size, 0
                )
                sum(range(1000))
                comm.Barrier()
            if comm.rank == step:
                with lk.phase("report"):
                    pass


@pytest.mark.parametrize("recording", [{"trace": True}, {"summary": True}])
def test_phases_and_calls_are_visited_as_often_as_on_the_simulator(recording):
    visits = []
    for on in ("mpi", "star:2"):
        profile = lk.run(_entered, 2, on=on, **recording).profile()
        profile = profile[profile["call"] != "not yet begun"].astype({"phase": str, "call": str})
        visits.append(profile.groupby(["rank", "phase", "call"])["visits"].sum().to_dict())
    assert visits[0] == visits[1]
    assert visits[0][1, "step > halo", "computation"] == visits[0][1, "step > halo", "Barrier"] == 3
    assert visits[0][0, "step > report", "computation"] == visits[0][0, "(no phase)", "computation"] == 1


def _exchange(comm):
    """Point to point of every kind, in an order that no time decides."""
    rank, p = comm.rank, comm.size
    right, left = (rank + 1) % p, (rank - 1) % p
    x, y = np.arange(1000.0) + rank, np.empty(1000)
    with lk.phase("ring"):
        MPI.Request.Waitall([comm.Isend(x, right, 3), comm.Irecv(y, left, 3)])
        comm.Sendrecv(x, right, 1, y, left, 1)
        comm.Sendrecv_replace(y[:500], right, 2, left, 2)
        assert comm.sendrecv({"rank": rank}, right, 4, None, left, 4) == {"rank": left}
    with lk.phase("one to one"):
        if rank == 0:
            comm.ssend(list(range(500)), 1, tag=5)
            comm.bsend("buffered", 1, tag=6)
            comm.Rsend(x[:10], 1, 8)
            comm.Issend(x[:3], 1, 11).Wait()
        elif rank == 1:
            comm.recv(source=0, tag=5)
            comm.Probe(0, 6)
            comm.recv(source=MPI.ANY_SOURCE, tag=6)
            comm.Recv(np.empty(50), 0, MPI.ANY_TAG)
            comm.Mprobe(0, 11).Recv(np.empty(3))
    half = comm.Split(rank % 2, rank)
    half.Sendrecv(x, 1 - half.rank, 1, y, 1 - half.rank, 1)
    posted = [comm.Irecv(np.empty(100), left, tag) for tag in range(4)]
    sent = [comm.isend([tag] * 50, right, tag=tag + 10) for tag in range(4)]
    start = comm.Send_init(x[:100], right, 0)
    for tag in range(4):
        if tag == 0:
            start.Start()
            start.Wait()
        else:
            comm.Send(x[:100], right, tag)
    while posted:
        posted.pop(MPI.Request.Waitany(posted))
    for tag in range(4):
        comm.recv(source=left, tag=tag + 10)
    MPI.Request.Waitall(sent)
    orphan = comm.Irecv(np.empty(1), left, 99)
    orphan.Cancel()
    orphan.Wait()


def _envelopes(table, is_simulated):
    """Messages as they are on both machines: those of communicators' making are the simulator's own."""
    if is_simulated:
        table = table[table["context"] % 2 == 0]
    return sorted(zip(*(table[n].tolist() for n in ("source", "destination", "tag", "bytes")), strict=True))


@pytest.mark.slow
def test_the_messages_are_those_of_the_simulated_run(real):
    simulated = lk.run(_exchange, 4, "star:4", trace=True).trace
    run = lk.run(_exchange, 4, real, trace=True)
    trace = run.trace
    assert not [note for note in run.notes if note.startswith("trace:")], "nothing is left over"
    assert _envelopes(trace.messages, False) == _envelopes(simulated.messages, True)
    assert set(simulated.messages) <= set(trace.messages)
    assert set(simulated.waits) <= set(trace.waits)
    assert list(simulated.computations) == list(trace.computations)
    assert set(trace.calls["phase"]) == {"ring", "one to one", "(no phase)"}
    assert all(place.startswith("_exchange") for place in trace.calls["place"])
    assert all(", test_recorded_times.py:" in place for place in trace.calls["place"])
    assert "the ranks read one clock" in repr(trace)
    rows = trace.messages
    assert (rows["send_posted_s"] <= rows["end_s"]).all()
    assert (rows["recv_posted_s"] <= rows["end_s"]).all()
    assert (rows["send_posted_s"] <= rows["start_s"]).all()


def _orders(run):
    """Intervals follow each other and end with the run; the path has no gap."""
    trace = run.trace
    what = activity(trace)
    assert what.makespan_s == pytest.approx(run.makespan_s)
    for rank in range(run.ranks):
        rows = what.rank == rank
        begin, end = what.begin_s[rows], what.end_s[rows]
        assert begin[0] == 0.0
        assert begin[1:] == pytest.approx(end[:-1], abs=1e-9)
        assert end[-1] == pytest.approx(trace.ends_s[rank])
    now = 0.0
    for step in critical_path(trace):
        assert step.begin_s == pytest.approx(now, abs=1e-9)
        now = step.end_s
    assert now == pytest.approx(run.makespan_s)
    reasons = run.explain().reasons
    assert reasons["seconds"].sum() == pytest.approx(run.makespan_s)


def test_what_the_ranks_did_fills_their_time(real):
    _orders(lk.run(_exchange, 4, real, trace=True))


def test_collectives_are_calls_that_join_their_ranks(real):
    def program(comm):
        rank, p = comm.rank, comm.size
        if rank == 2:
            import time

            time.sleep(0.2)
        comm.Allreduce(np.ones(100), np.empty(100))
        comm.Alltoallv(
            [np.ones(p * (rank + 1)), [rank + 1] * p], [np.empty(p * (p + 1) // 2), range(1, p + 1)]
        )
        comm.bcast("x" * 1000, 1)
        request = comm.Iallreduce(np.ones(3), np.empty(3))
        request.Wait()
        half = comm.Split(rank % 2)
        half.Barrier()
        return half.allgather(rank)

    run = lk.run(program, 4, real, trace=True)
    calls = run.trace.calls
    joined = calls[calls["joint"] >= 0].groupby("joint")
    assert {name for _, rows in joined for name in {tuple(sorted(rows["call"]))}} == {
        *((name,) * 4 for name in ("Allreduce", "Alltoallv", "bcast", "Iallreduce", "Split")),
        ("Barrier",) * 2, ("allgather",) * 2,
    }  # fmt: skip
    first = calls[calls["call"] == "Allreduce"]
    assert (first["bytes"] == 800).all()
    waited = run.trace.waits[run.trace.waits["call"].isin(first.index) & (run.trace.waits["rank"] != 2)]
    assert (waited["origin"] == 2).all()
    assert ((waited["ready_s"] - waited["begin_s"]) > 0.1).all()
    assert set(run.trace.operations["name"]) == {"Iallreduce"}
    _orders(run)
    gave = payloads(run.trace)
    to_all = gave[gave["bytes"].isin([8, 16, 24, 32])]
    assert to_all.groupby("source")["bytes"].first().tolist() == [8, 16, 24, 32]
    step = max(critical_path(run.trace), key=lambda one: one.seconds)
    assert step.rank == 2, "the path leads over the rank that was late"


def test_every_repetition_has_its_own_trace(real):
    run = lk.run(
        lambda comm: comm.sendrecv(b"x", comm.rank ^ 1, source=comm.rank ^ 1), 2, real, trace=True, repeats=3
    )
    for one in run.repetitions:
        assert len(one.trace) == 2
        _orders(one)


@pytest.mark.slow
def test_times_and_lines_together(real, tmp_path):
    run = lk.run(_exchange, 4, real, trace=True, trace_ti=tmp_path / "t.txt", compute="none")
    assert len(run.trace) == len(lk.run(_exchange, 4, real, trace=True).trace)
    lk.run(_exchange, 4, real, trace_ti=tmp_path / "alone.txt", compute="none")
    assert (tmp_path / "t.txt").read_text() == (tmp_path / "alone.txt").read_text()


def test_what_lines_cannot_say_is_timed_all_the_same(real):
    def program(comm):
        win = MPI.Win.Allocate(8, comm=comm)
        is_window = isinstance(win, MPI.Win)
        win.Free()
        part = comm.Split(comm.rank % 2)
        merged = part.Create_intercomm(0, comm, 1 - comm.rank % 2, 5).Merge()
        is_one_group = isinstance(merged, MPI.Intracomm) and isinstance(merged, MPI.Comm)
        copy, request = comm.Idup()
        request.Wait()
        copy.Barrier()
        again = comm.Bcast_init(np.ones(3))
        again.Start()
        again.Wait()
        return is_window and is_one_group and not isinstance(part, MPI.Cartcomm)

    run = lk.run(program, 2, real, trace=True)
    assert run.results == [True, True]
    assert "trace: what MPI.Win moves is not in the trace" in run.notes
    assert {"Idup", "Barrier", "Bcast_init", "Start(Bcast)", "Wait"} <= set(run.trace.calls["call"])


def test_a_script_is_recorded_from_its_start_to_its_finalize(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import mpi4py\nmpi4py.rc.initialize = False\nfrom mpi4py import MPI\nMPI.Init()\n"
        "comm = MPI.COMM_WORLD\nother = comm.rank ^ 1\nprint(comm.sendrecv(comm.rank, other, source=other))\n"
        "MPI.Finalize()\n"
    )
    run = lk.run(script, 2, "mpi", trace=True)
    assert run.output == ["1\n", "0\n"]
    assert len(run.trace) == 2
    assert all(len(samples) == 2 for samples in run.trace.clocks.samples)


def test_the_command_line_explains_a_real_run(tmp_path, monkeypatch, capsys):
    script = tmp_path / "prog.py"
    script.write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "-n", "2", "--explain", "--trace", "--json", "--on", "mpi", str(script)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert "Which links its messages used, a real run does not record" in record["explanation"]["reading"]
    assert record["explanation"]["reasons"]
    assert (tmp_path / "prog.trace.csv").exists()


def test_figures_draw_it_as_a_simulated_one(real):
    run = lk.run(_exchange, 4, real, trace=True)
    said = lk.plot.gantt(run).reading
    assert re.search(r"_exchange on .*, 4 ranks, .* \d+%", said)  # which states are named, times decide
    assert "Arrows are messages" in said
    assert "4 ranks" in lk.plot.sends(run, phase="ring").reading
    explained = run.explain()
    assert "The critical path of _exchange" in lk.plot.critical_path(explained).reading
    for needs_links in (lk.plot.heat, lk.plot.utilisation):
        with raises_code(DataError, "unsupported"):
            needs_links(explained)
