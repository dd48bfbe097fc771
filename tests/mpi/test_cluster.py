"""The shapes of a `Run`, of a launch and of engines alike; between runs on engines nothing leaks."""

from __future__ import annotations

import os
import random
import sys

import numpy as np
import pytest

import labkit as lk
from labkit.errors import MachineError
from labkit.real.context import available_cores

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_results_phases_and_output_come_in_rank_order(real, ranks):
    def program(comm, base, *, factor):
        with lk.phase("exchange"):
            total = comm.allreduce(comm.rank)
        with lk.phase("talk"):
            print("rank", comm.rank, "of", comm.size)
            print("to stderr", file=sys.stderr)
        with lk.phase("exchange"):
            comm.barrier()
        lk.compute(seconds=1000.0)  # charged in simulation, ignored here
        return base + factor * total, comm.rank

    run = lk.run(program, ranks, real, args=(5,), kwargs={"factor": 2})
    total = ranks * (ranks - 1) // 2
    assert run.results == [(5 + 2 * total, rank) for rank in range(ranks)]
    assert run.output == [f"rank {rank} of {ranks}\nto stderr\n" for rank in range(ranks)]
    on = "mpi" if real == "mpi" else "cluster"
    assert (run.program, run.ranks, run.on, run.model) == ("program", ranks, on, None)
    assert list(run.phases.columns) == ["rank", "phase", "begin_s", "end_s", "depth"]
    assert run.phases["rank"].tolist() == [rank for rank in range(ranks) for _ in range(3)]
    assert run.phases["phase"].tolist() == ["exchange", "talk", "exchange"] * ranks
    assert (run.phases["begin_s"] >= 0).all()
    assert (run.phases["end_s"] >= run.phases["begin_s"]).all()
    assert (run.phases["end_s"] <= run.makespan_s).all()
    assert 0 < run.makespan_s < run.host_seconds
    assert run.messages is None
    assert run.is_valid == (ranks <= available_cores())
    assert (run.notes == []) == run.is_valid
    assert run.machine["library"].startswith(("Open MPI", "MPICH", "Intel"))
    assert real == "mpi" or run.machine["engines"] == 4


def test_repetitions_share_nothing(real):
    def program(comm, keys, seen=[]):  # noqa: B006 - the trap is the point
        keys.sort()
        seen.append(len(seen))
        print("repetition", keys[0], len(seen))
        return keys[0], list(seen), random.random(), np.random.random()

    run = lk.run(program, 2, real, args=([3, 1, 2],), repeats=3, seed=7)
    assert len(run.repetitions) == 3
    assert run.makespan_s == sorted(one.makespan_s for one in run.repetitions)[1]
    for one in run.repetitions:
        assert [result[:2] for result in one.results] == [(1, [0])] * 2
        assert one.output == ["repetition 1 1\n"] * 2
        assert one.repetitions == []
    drawn = [result[column] for one in run.repetitions for result in one.results for column in (2, 3)]
    assert len(set(drawn)) == len(drawn)
    alone = lk.run(program, 2, "mpi", args=([3, 1, 2],), seed=9)
    assert alone.results == run.repetitions[2].results


def test_messages_of_one_run_do_not_reach_the_next(engines):
    def leaving(comm):
        comm.send(("old", comm.rank), dest=(comm.rank + 1) % comm.size, tag=9)
        comm.Isend(np.full(100_000, 1.0), dest=(comm.rank + 1) % comm.size, tag=9)

    def asking(comm):
        comm.barrier()
        return comm.iprobe()

    run = lk.run(leaving, 3, engines)
    assert "rank 1 never received a message from rank 0 with tag 9" in run.notes
    for _ in range(3):
        assert lk.run(asking, 3, engines).results == [False] * 3


def test_what_a_program_changes_is_put_back(engines, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def program(comm):
        import edited

        seen = os.environ.get("MINE"), os.getcwd(), edited.VALUE, len(sys.argv)
        os.environ["MINE"] = "changed"
        sys.argv.append("more")
        os.chdir("/")
        return seen

    (tmp_path / "edited.py").write_text("VALUE = 1\n")
    first = lk.run(program, 1, engines).results[0]
    (tmp_path / "edited.py").write_text("VALUE = 'two'\n")
    second = lk.run(program, 1, engines).results[0]
    assert first[:3] == (None, str(tmp_path), 1)
    assert second == (None, str(tmp_path), "two", first[3])


def test_script_runs_unmodified(engines, tmp_path):
    script = tmp_path / "prog.py"
    (tmp_path / "helper.py").write_text("NAME = 'helper'\n")
    script.write_text(
        "import sys\nfrom mpi4py import MPI\nimport helper\ncomm = MPI.COMM_WORLD\n"
        "print(comm.allreduce(comm.rank), sys.argv[1:], helper.NAME, __name__)\nMPI.Finalize()\n"
    )
    for _ in range(2):
        run = lk.run(script, 3, engines, args=("a", "b c"))
        assert run.output == ["3 ['a', 'b c'] helper __main__\n"] * 3
        assert run.program == "prog.py"


def test_client_and_view_name_the_cluster_as_well(engines):
    def program(comm):
        return comm.allreduce(1)

    assert lk.run(program, 2, engines.client).results == [2, 2]
    assert lk.run(program, 3, engines.client[:]).results == [3, 3, 3]
    with pytest.raises(MachineError, match="no load-balanced view"):
        lk.run(program, 2, engines.client.load_balanced_view())
    with pytest.raises(MachineError, match="the cluster has 4 engines"):
        lk.run(program, 5, engines)


def test_sweep_measures_on_the_cluster(engines):
    def program(comm, n):
        with lk.phase("sum"):
            comm.allreduce(np.zeros(n))

    study = lk.sweep(program, [1, 2], on=engines, n=[10, 1000], repeats=2)
    assert len(study.failures) == 0
    assert set(study.data["on"]) == {"cluster"}
