"""What the front door refuses, before any work starts."""

from __future__ import annotations

import functools
import math
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import LabkitError, MachineError, PlatformError, ProgramError, RankError, ScheduleError
from tests.support.refusals import raises_code


def program(comm, keys=None):
    raise AssertionError("work has started")


@pytest.mark.parametrize(
    ("ranks", "code"),
    [(0, "out-of-range"), (-3, "out-of-range"), *((one, "wrong-type") for one in (2.0, "4", True))],
)
@pytest.mark.parametrize("on", ["mpi", "star:64"])
def test_ranks(ranks, code, on):
    with raises_code(MachineError, code, repr(ranks)):
        lk.run(program, ranks, on)


@pytest.mark.parametrize("on", ["mpi", "star", "slurm", "cluster"])
def test_a_machine_of_any_size_does_not_say_how_many_ranks(on):
    with raises_code(MachineError, "ranks-required", repr(on)):
        lk.run(program, on=on)


@pytest.mark.parametrize(
    ("on", "ranks"), [("star:5", 5), ("torus:2x3,cores=2", 12), (lk.graph([(0, 1), (1, 2), (2, 0)]), 3)]
)
def test_a_machine_of_a_size_holds_so_many_ranks(on, ranks):
    assert lk.run(lambda comm: comm.size, on=on).results == [ranks] * ranks


def own(comm, n, *, seed=0, mpi="none"):
    return n, seed, mpi


def test_the_programs_parameters_reach_it_by_name():
    assert lk.run(own, 2, n=5).results == [(5, 0, "none")] * 2
    assert lk.run(own, 1, n=5, mpi="x", kwargs={"seed": 7}).results == [(5, 7, "x")]
    assert lk.run(lambda comm, **rest: rest, 1, a=1, b=2).results == [{"a": 1, "b": 2}]
    assert lk.run(functools.partial(own, n=3), 1).results == [(3, 0, "none")]


def test_the_programs_parameters_are_not_mistaken():
    with raises_code(ProgramError, "duplicate-name", "'n'"):
        lk.run(own, 2, n=5, kwargs={"n": 6})
    with raises_code(MachineError, "unknown-name", "'m'"):
        lk.run(own, 2, n=5, m=3)
    with raises_code(MachineError, "unknown-name", "'model'"):
        lk.run(own, 2, n=5, modell="lab")
    with raises_code(ProgramError, "wrong-arguments", "'n'"):
        lk.run(own, 2)
    with raises_code(MachineError, "missing-tool", "'no/such/mpiexec'"):
        lk.run(own, 2, "mpi", n=5, mpi="no/such/mpiexec")


@pytest.mark.parametrize(
    ("timeout_s", "code"),
    [(0, "out-of-range"), (-1, "out-of-range"), *((one, "wrong-type") for one in (math.nan, "1", True))],
)
def test_time_limit(timeout_s, code):
    with raises_code(MachineError, code, "timeout_s"):
        lk.run(program, 2, "mpi", timeout_s=timeout_s)


@pytest.mark.parametrize("repeats", [0, 1.5, True])
def test_repeats(repeats):
    with raises_code(MachineError, "out-of-range", "repeats"):
        lk.run(program, 2, "mpi", repeats=repeats)


@pytest.mark.parametrize("on", ["moon", "star:0", "star:x", "", 7, None])
def test_platform(on):
    with pytest.raises(PlatformError):
        lk.run(program, 2, on)


def test_platform_too_small():
    with raises_code(PlatformError, "too-many-ranks", "3", "2"):
        lk.run(program, 3, "star:2")


def test_model_and_algorithm():
    with raises_code(PlatformError, "unknown-name", "'warp'"):
        lk.run(program, 2, "star", model="warp")
    with raises_code(ScheduleError, "unknown-name", "allreduce", "'magic'"):
        lk.run(program, 2, "star", coll={"allreduce": "magic"})
    with raises_code(ScheduleError, "unknown-name", "'telepathy'"):
        lk.run(program, 2, "star", coll={"telepathy": "ring"})


def test_options_of_the_other_machine():
    with raises_code(MachineError, "conflicting-options", 'on="mpi"'):
        lk.run(program, 2, "mpi", model="lab")
    with raises_code(MachineError, "unknown-name", "'mpi'"):
        lk.run(program, 2, "star", mpi="system")


@pytest.mark.parametrize("on", ["mpi", "star"])
def test_programs_that_cannot_be_called(on, tmp_path):
    async def coroutine(comm):
        pass

    def generator(comm):
        yield 1

    def no_rank():
        pass

    for wrong in (7, None, coroutine, generator, no_rank, lambda comm, a, b: None, tmp_path, "no/such.py"):
        with pytest.raises(ProgramError):
            lk.run(wrong, 2, on)
    with raises_code(ProgramError, "wrong-arguments"):
        lk.run(program, 2, on, kwargs={"unknown": 1})
    with raises_code(ProgramError, "wrong-arguments"):
        lk.run(program, 2, on, args=(1, 2))


def test_scripts_take_no_keywords(tmp_path):
    script = tmp_path / "p.py"
    script.write_text("")
    with raises_code(ProgramError, "conflicting-options"):
        lk.run(script, 2, "mpi", kwargs={"a": 1})
    with raises_code(ProgramError, "conflicting-options", "repeats"):
        lk.run(script, 2, "mpi", repeats=2)


def test_names_of_programs():
    from labkit.checks import program_name

    class Solver:
        def __call__(self, comm):
            pass

    assert program_name(program) == "program"
    assert program_name(functools.partial(program, keys=1)) == "program"
    assert program_name(functools.partial(functools.partial(program), keys=1)) == "program"
    assert program_name(Solver()) == "Solver"
    assert program_name("a/b/solve.py") == "solve.py"


def test_run_is_callable_before_and_after_its_parts_are_imported():
    import labkit.result  # binds labkit.run to the module

    assert callable(lk.run)
    assert labkit.result.Run is lk.Run
    with pytest.raises(LabkitError):
        lk.run(program, 0)


def test_more_ranks_than_any_machine_here_bears():
    with raises_code(MachineError, "too-many-ranks", "1,048,576"):
        lk.run(program, 10**7)
    with raises_code(MachineError, "too-many-ranks"):
        lk.run(program, 10**6, "mpi")


@pytest.mark.parametrize("on", ["mpi", "star"])
def test_a_script_that_is_not_python(on, tmp_path):
    (tmp_path / "p.py").write_text("x = 1\ndef f(:\n")
    with raises_code(ProgramError, "not-python", "line 2"):
        lk.run(tmp_path / "p.py", 2, on)


def test_a_function_that_asks_at_the_keyboard_is_refused():
    def ask(comm):
        n = comm.rank
        return [int(input("n? ")) for _ in range(n)]

    with raises_code(ProgramError, "not-on-ranks"):
        lk.run(ask, 2)

    def given(comm, input):
        return input

    assert lk.run(given, 1, input=3).results == [3]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"seed": "x"}, ("wrong-type", "seed", "'x'")),
        ({"seed": None}, ("wrong-type", "seed")),
        ({"seed": 1.0}, ("wrong-type", "seed", "1.0")),
        ({"trace": "yes"}, ("wrong-type", "trace", "'yes'")),
        ({"count": "all"}, ("wrong-type", "count", "'all'")),
        ({"args": 3}, ("wrong-type", "args", "args=", "[1000]", "3")),
        ({"args": "abc"}, ("wrong-type", "args")),
        ({"kwargs": 3}, ("wrong-type", "kwargs", "3")),
    ],
)
@pytest.mark.parametrize("on", ["star", "mpi"])
def test_options_of_another_kind_are_refused_with_a_sentence(on, options, wanted: tuple[str, ...]):
    with raises_code((MachineError, ProgramError), *wanted):
        lk.run(program, 2, on, **options)


@pytest.mark.parametrize("options", [{"seed": "x"}, {"args": 3}])
def test_a_sweep_refuses_them_too(options):
    with raises_code((MachineError, ProgramError), "wrong-type"):
        lk.sweep(program, [1, 2], progress=False, **options)


def test_numbers_of_numpy_are_seeds_and_switches():
    run = lk.run(lambda comm: comm.barrier(), 2, seed=np.int64(3), trace=np.True_)
    assert run.trace is not None


@pytest.mark.parametrize(("on", "meant"), [("mip", "mpi"), ("slrum", "slurm"), ("clustr", "cluster")])
@pytest.mark.parametrize("ranks", [None, 4])
def test_a_misspelt_word_for_a_machine_of_another_kind(on, meant, ranks):
    with raises_code(PlatformError, "unknown-name", f"on='{meant}'"):
        lk.run(program, ranks, on)


def test_a_misspelt_topology_is_no_word_for_another_machine():
    with raises_code(PlatformError, "unknown-name", "'torus'") as refused:
        lk.run(program, 4, "torsu:2x2")
    assert "or did you mean" not in str(refused.value)


def test_the_first_run_of_a_process_may_be_traced() -> None:
    """The classes of labkit.MPI are completed before a trace wraps their methods."""
    text = (
        "import labkit as lk\n"
        "def program(comm):\n"
        "    return comm.allreduce(comm.rank)\n"
        "print(lk.run(program, 2, 'star', trace=True).results)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.stdout == "[1, 1]\n", done.stderr


def test_an_error_keeps_its_code_and_its_values_in_another_process() -> None:
    with raises_code(MachineError, "out-of-range") as caught:
        lk.run(len, 0)
    found = pickle.loads(pickle.dumps(caught.value))
    assert (found.code, found.values) == ("out-of-range", {"parameter": "ranks", "given": 0})


@pytest.mark.parametrize(
    ("program", "code"),
    [
        (lambda comm: lk.run(len, 0), "out-of-range"),
        (lambda comm: comm.Abort(3), "aborted"),
        (lambda comm: [][comm.rank], "rank-failed"),
    ],
)
def test_the_error_of_a_rank_has_the_code_of_what_it_raised(program: Any, code: str) -> None:
    with raises_code(RankError, code) as caught:
        lk.run(program, 2)
    assert pickle.loads(pickle.dumps(caught.value)).code == code
