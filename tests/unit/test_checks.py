"""Bad values are refused before work starts; a simulated run's tolerance, and what the run says of it."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest

import labkit as lk
from labkit.checks import ToleranceUse
from labkit.cli.main import main
from labkit.errors import DataError, LabkitError, MachineError
from tests.support.refusals import raises_code

SCRIPT = """\
import random
from mpi4py import MPI
comm = MPI.COMM_WORLD
rng = random.Random(comm.rank)
peers = [(comm.rank + k) % comm.size for k in range(1, comm.size)]
requests = [comm.Irecv(bytearray(10**5), peer) for peer in peers]
requests += [comm.Isend(bytes(rng.randrange(10**5)), peer) for peer in peers]
MPI.Request.Waitall(requests)
"""


def never(comm):
    raise AssertionError("work has started")


def everybody(comm):
    """Unequal blocks from everybody to everybody, from different moments on."""
    rng = random.Random(comm.rank)
    lk.compute(seconds=1e-4 * rng.random())
    peers = [(comm.rank + k) % comm.size for k in range(1, comm.size)]
    requests = [comm.Irecv(np.empty(10**5, "u1"), peer) for peer in peers]
    requests += [comm.Isend(np.empty(rng.randrange(10**5), "u1"), peer) for peer in peers]
    lk.MPI.Request.Waitall(requests)


WRONG = [-1e-9, 0.1, 1, math.nan, math.inf, "1e-3", None, True, 1e-3 + 0j, [1e-3]]


@pytest.mark.parametrize("tolerance", WRONG)
def test_what_is_no_tolerance_is_refused(tolerance):
    with raises_code(MachineError, "out-of-range", "0", "0.1", "3") as refused:
        lk.run(never, 2, "star", tolerance=tolerance)
    assert "\n" not in str(refused.value)
    with raises_code(MachineError, "out-of-range", "0", "0.1"):
        lk.sweep(never, [2], "star", tolerance=tolerance)


def test_real_machines_have_none():
    with raises_code(MachineError, "conflicting-options", 'on="mpi"'):
        lk.run(never, 2, "mpi", tolerance=1e-3)
    with raises_code(MachineError, "conflicting-options"):
        lk.sweep(never, [2], "mpi", tolerance=1e-3)
    with raises_code(MachineError, "out-of-range", "0"):  # not even a bad one
        lk.run(never, 2, "mpi", tolerance=-1)


def test_a_program_with_a_tolerance_of_its_own_is_not_guessed_at():
    def program(comm, tolerance):
        raise AssertionError("work has started")

    with raises_code(DataError, "name-taken"):
        lk.sweep(program, [2], "star", tolerance=0.05)


def test_an_exact_run_says_nothing():
    run = lk.run(everybody, 8, "star")
    assert run.tolerance is None
    assert "tolerance" not in repr(run) + run._repr_html_()


def test_few_messages_are_exact_and_the_run_says_so():
    run = lk.run(everybody, 8, "star", tolerance=1e-2)
    assert run.makespan_s == lk.run(everybody, 8, "star").makespan_s
    assert run.tolerance is not None
    assert run.tolerance.loose_instants == 0 < run.tolerance.instants
    assert "tolerance 0.01, never used: every rate is exact" in repr(run)
    assert run.notes == []


def test_a_large_load_uses_it_and_states_guarantee_and_use():
    exact = lk.run(everybody, 60, "star")
    run = lk.run(everybody, 60, "star", tolerance=1e-3)
    use = run.tolerance
    assert use is not None
    assert 10 < use.certified_instants <= use.loose_instants <= use.instants
    assert 0 < use.perturbation <= 1e-3 * (1 + 1e-6)
    assert use.without_bottleneck == 0
    assert run.makespan_s == pytest.approx(exact.makespan_s, rel=5e-4)
    for text in (repr(run), run._repr_html_()):
        assert "capacities changed by at most 0.1 %" in text
        assert f"used in {use.loose_instants} of {use.instants} sharings" in text


def test_a_sweep_hands_it_on_and_remarks_on_it():
    study = lk.sweep(everybody, [60], "star", tolerance=1e-3, repeats=1)
    [remark] = study.notes["remarks"]
    assert remark.startswith("tolerance 0.001: at every instant")
    assert study.data.query("metric == 'makespan_s'")["value"].item() == (
        lk.run(everybody, 60, "star", tolerance=1e-3).makespan_s
    )


@pytest.mark.slow
def test_the_command_line_takes_it_and_its_json_tells(tmp_path, capsys):
    script = tmp_path / "p.py"
    script.write_text(SCRIPT)
    records = {}
    for tolerance in ("0", "1e-3"):
        assert main(["run", "-n", "56", "--tolerance", tolerance, "--json", str(script)]) == 0
        records[tolerance] = json.loads(capsys.readouterr().out)
    assert records["0"]["tolerance"] is None
    use = ToleranceUse(**records["1e-3"]["tolerance"])
    assert use.tolerance == 1e-3
    assert use.loose_instants > 0
    assert use.guarantee() in records["1e-3"]["notes"]
    assert records["1e-3"]["makespan_s"] == pytest.approx(records["0"]["makespan_s"], rel=5e-4)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tolerance", "fair"], "--tolerance takes a number, as in 1e-3, got 'fair'"),
        (["--tolerance", "nan"], "got nan"),
        (["--tolerance=-1e-3"], "got -0.001"),
        (["--tolerance", "1e-3", "--on", "mpi"], 'not to on="mpi"; leave it out'),
    ],
)
def test_the_command_line_refuses_in_one_line(words, says, tmp_path, capsys):
    (tmp_path / "p.py").write_text("")
    assert main(["run", "-n", "2", *words, str(tmp_path / "p.py")]) == 3
    refused = capsys.readouterr().err
    assert says in refused
    assert refused.count("\n") == 1


@pytest.mark.parametrize(
    ("tolerance", "percent"), [(1e-3, "0.1 %"), (0.0999, "9.99 %"), (2.5e-5, "0.0025 %"), (0.05, "5 %")]
)
def test_the_guarantee_is_in_percent(tolerance, percent):
    use = ToleranceUse(tolerance, 9, 8, 7, 1e-4, 0)
    assert f"by at most {percent};" in use.guarantee()


def test_a_failed_certificate_is_not_hidden():
    assert "3 messages had no bottleneck" in ToleranceUse(1e-3, 9, 8, 7, 1e-4, 3).guarantee()


def study(**options):
    return lk.sweep(never, [2], **options)


def judged():
    return lk.sweep(lambda comm: comm.barrier(), [2, 4, 8, 16, 32])


@pytest.mark.parametrize(
    ("call", "code", "name"),
    [
        (lambda: lk.run(never, 2, timeout_s=math.inf), "out-of-range", "timeout_s"),
        (lambda: lk.run(never, 2, trace=np.arange(3)), "wrong-type", "trace"),
        (lambda: lk.run(never, 2, coll={"allreduce": 1}), "wrong-type", "allreduce"),
        (lambda: lk.run(never, 2, coll={1: "ring"}), "wrong-type", "ring"),
        (lambda: lk.run(never, 2, coll=np.arange(3)), "wrong-type", "coll"),
        (lambda: lk.run(never, 2, kwargs=np.arange(3)), "wrong-type", "kwargs"),
        (lambda: study(timeout_s="10"), "wrong-type", "timeout_s"),
        (lambda: study(measure=3), "wrong-type", "measure"),
        (lambda: study(runner="x"), "wrong-type", "runner"),
        (lambda: study(warmup=1.5), "out-of-range", "warmup"),
        (lambda: judged().fit(where="n=3"), "wrong-type", "where"),
        (lambda: judged().expect("1", where=[1]), "wrong-type", "where"),
        (lambda: judged().fit(aggregate=["mean"]), "unknown-name", "aggregate"),
        (lambda: judged().table("1"), "wrong-type", "total"),
        (lambda: judged().expect("1", given=True), "wrong-type", "given"),
        (lambda: judged().expect_curve("p", "bytes", given=[1]), "wrong-type", "given"),
        (lambda: judged().group([]), "wrong-type", "[]"),
        (lambda: judged().group(None), "wrong-type", "None"),
        (lambda: judged().surface(3), "wrong-type", "parameters"),
        (lambda: judged().guideline(3), "wrong-type", "3"),
        (lambda: judged().outlook(64, level="x"), "out-of-range", "level"),
        (lambda: judged().limit(at_most=1, level=1), "out-of-range", "level"),
        (lambda: judged().save(None), "wrong-type", "None"),
        (lambda: judged().export(3), "wrong-type", "3"),
        (lambda: judged().bundle(True), "wrong-type", "True"),
        (lambda: judged().bundle("x.zip", host_metrics="bytes"), "wrong-type", "host_metrics"),
        (lambda: judged().bundle("x.zip", notebook=3), "wrong-type", "3"),
        (lambda: judged().fit().predict("x"), "wrong-type", "'x'"),
        (lambda: judged().fit().interval({}), "wrong-type", "{}"),
        (lambda: judged().fit().interval(8, level=None), "out-of-range", "level"),
        (lambda: lk.platform("star:8").rank_hosts(None), "out-of-range", "None"),
        (lambda: lk.platform("star").placement("x"), "out-of-range", "'x'"),
        (lambda: lk.guidelines("star:4", level=2), "out-of-range", "level"),
        (lambda: lk.guidelines("star:4", margin="x"), "out-of-range", "margin"),
        (lambda: lk.guidelines("star:4", launches=10**30), "out-of-range", "launches"),
        (lambda: lk.tune(["bcast"], "star:4"), "unknown-name", "bcast"),
        (lambda: lk.tune("bcast", "star:4", algorithms=3), "wrong-type", "algorithms"),
    ],
)
def test_what_means_nothing_is_refused_by_its_name(call, code: str, name: str):
    with raises_code(LabkitError, code, name):
        call()


def test_one_algorithm_needs_no_list():
    assert set(lk.card("bcast", "star:4", bytes=8, algorithms="linear").data["algorithm"]) == {"linear"}
