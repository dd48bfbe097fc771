"""Functions of notebooks travel to the ranks by value; labkit and what can be imported by name."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
import types

import pytest

import labkit as lk

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("nothing_left")]

SCALE = 10


class Point:
    def __init__(self, x):
        self.x = x


def module_level(comm):
    return Point(SCALE * comm.rank)


def test_function_of_a_module_returns_the_modules_own_class():
    results = lk.run(module_level, 2, "mpi").results
    assert [type(one) for one in results] == [Point, Point]
    assert [one.x for one in results] == [0, 10]


def test_closures_lambdas_partials_and_callable_objects():
    offset = 7
    assert lk.run(lambda comm: comm.rank + offset, 2, "mpi").results == [7, 8]

    def with_arguments(first, comm, last):
        return first, comm.rank, last

    assert lk.run(functools.partial(with_arguments, "a", last="z"), 1, "mpi").results == [("a", 0, "z")]

    class Callable:
        def __call__(self, comm):
            return offset

    assert lk.run(Callable(), 1, "mpi").results == [7]


def test_module_that_exists_in_no_file():
    module = types.ModuleType("made_in_memory")
    exec("def twice(x):\n    return 2 * x\n\ndef program(comm):\n    return twice(comm.rank)\n", vars(module))
    sys.modules["made_in_memory"] = module
    try:
        assert lk.run(module.program, 2, "mpi").results == [0, 2]
    finally:
        del sys.modules["made_in_memory"]


def test_helper_module_beside_the_script_is_found(tmp_path):
    (tmp_path / "beside.py").write_text("def helper(x):\n    return x + 100\n")
    script = tmp_path / "main.py"
    script.write_text(
        textwrap.dedent(
            """
            import labkit as lk
            import beside

            class Mine:
                pass

            def program(comm):
                assert isinstance(mine, Mine)
                return beside.helper(comm.rank)

            mine = Mine()
            if __name__ == "__main__":
                print(lk.run(program, 2, "mpi").results)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False, cwd="/"
    )
    assert done.stdout == "[100, 101]\n", done.stderr


def test_source_lines_of_a_notebook_cell_are_in_the_traceback():
    import linecache

    source = "def program(comm):\n    return 1 / 0  # in a cell\n"
    name = "<cell 1>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), namespace)
    try:
        with pytest.raises(lk.errors.RankError) as caught:
            lk.run(namespace["program"], 1, "mpi")
    finally:
        del linecache.cache[name]
    assert "return 1 / 0  # in a cell" in caught.value.traceback


def test_labkit_mpi_is_the_ranks_own_wherever_it_was_caught():
    from labkit import MPI, phase

    operation = MPI.SUM
    kind = MPI.Status

    def program(comm, op, *, source=MPI.ANY_SOURCE):
        import mpi4py.MPI

        with phase("checks"):
            same = [
                MPI is mpi4py.MPI,
                operation is mpi4py.MPI.SUM,
                op is mpi4py.MPI.MAX,
                kind is mpi4py.MPI.Status,
            ]
        same.append(comm is mpi4py.MPI.COMM_WORLD)
        status = kind()
        request = comm.isend("x", comm.rank)
        comm.recv(source=source, status=status)
        request.wait()
        return same, comm.allreduce(1, op=operation), comm.allreduce(comm.rank, op=op), status.source

    run = lk.run(program, 2, "mpi", args=(MPI.MAX,))
    assert run.results == [([True] * 5, 2, 1, rank) for rank in range(2)]
    assert run.phases["phase"].tolist() == ["checks"] * 2


def test_a_module_of_a_special_kind_travels():
    def program(comm):
        return lk.__name__, lk.run.__name__

    assert lk.run(program, 1, "mpi").results == [("labkit", "run")]
