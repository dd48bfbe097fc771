"""The table of methods is mpi4py's surface, and what is made of it are methods like others."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys

import pytest

import labkit as lk
from labkit import MPI
from labkit.comm.surface import MAKERS, METHODS, NAMED, REQUESTS, add_methods
from labkit.schedule import PROBLEMS


def first_lines(comm, methods, requests):
    """What mpi4py says of its own methods: name(self, buf: BufSpec, ...) -> None."""
    owners = [(MPI.Cartcomm, name) for name in methods] + [(MPI.Request, name) for name in requests]
    return {name: getattr(owner, name).__doc__.splitlines()[0] for owner, name in owners}


@pytest.mark.mpi
def test_every_row_is_a_method_of_mpi4py_with_its_parameters():
    names = [row.name for row in METHODS], [row.name for row in REQUESTS]
    said = lk.run(first_lines, 1, on="mpi", args=names).results[0]
    for row in (*METHODS, *REQUESTS):
        theirs = re.findall(r"(?:\(|, )(\w+):", said[row.name].split("->")[0])
        assert [p.name for p in row.parameters] == theirs, said[row.name]


def test_every_collective_has_three_forms():
    for problem in PROBLEMS.values():
        forms = [row.form for row in METHODS if row.base == problem.method]
        assert forms == ["blocking", "nonblocking", "persistent"]
    assert len(NAMED) == len(METHODS)
    assert not set(MAKERS) & set(NAMED)


@pytest.mark.parametrize("row", [row for row in METHODS if row.is_buffer], ids=lambda row: row.name)
def test_the_simulated_communicator_has_each(row):
    method = getattr(MPI.Cartcomm, row.name)
    assert method.__doc__
    if row.problem or row.kind == "neighbor" or row.form == "persistent":
        assert (method.__name__, [*inspect.signature(method).parameters]) == (
            row.name,
            ["self", *(p.name for p in row.parameters)],
        )


def test_made_methods_are_called_as_mpi4pys_are():
    class Noting:
        def Bcast(self, buf, root=0):  # noqa: N802
            return "its own"

    rows = [NAMED["Bcast"], NAMED["Reduce"], NAMED["Recv"]]
    space = {"SUM": "sum", "ANY_SOURCE": -1, "ANY_TAG": -2, "list": list}
    add_methods(Noting, rows, lambda row: None if row.name == "Recv" else "list(({args}))", space)
    assert Noting().Bcast("x") == "its own"
    assert Noting().Reduce(1, 2) == Noting().Reduce(sendbuf=1, recvbuf=2) == [1, 2, "sum", 0]
    assert not hasattr(Noting, "Recv")
    with pytest.raises(TypeError, match=r"Reduce\(\) got an unexpected keyword argument 'buf'"):
        Noting().Reduce(1, 2, buf=3)


OF_MPI4PY = """
import json
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
found = {}
for of in (one for one in vars(MPI).values() if isinstance(one, type)):
    for name in dir(of):
        line = next(iter((getattr(of, name).__doc__ or "").splitlines()), "")
        if not name.startswith("_") and line.startswith(f"{name}("):
            found[f"{of.__name__}.{name}"] = line
print(json.dumps(found))
"""
#: parameters of mpi4py's that differ: a handle's name, and what may be left out
OTHERWISE = {"fromhandle", "Precv_init", "pop", "Clone"}


def parameters_of(line: str) -> list[tuple[str, bool]]:
    """Return the parameters of a signature without self, and whether each may be left out."""
    (function,) = ast.parse(f"def {line}: pass").body
    assert isinstance(function, ast.FunctionDef)
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    least = len(names) - len(function.args.defaults)
    return [(name, i >= least) for i, name in enumerate(names) if name not in ("self", "cls")]


def test_parameters_are_those_of_mpi4py() -> None:
    pytest.importorskip("mpi4py")
    answer = subprocess.run(
        [sys.executable, "-c", OF_MPI4PY], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    seen, other = 0, []
    for method, line in json.loads(answer).items():
        of, name = method.split(".")
        own = getattr(getattr(MPI, of, None), name, None)
        if not callable(own) or name in OTHERWISE or of in ("buffer", "memory"):
            continue
        given = [
            (one.name, one.default is not one.empty)
            for one in inspect.signature(own).parameters.values()
            if one.name not in ("self", "cls") and one.kind not in (one.KEYWORD_ONLY, one.VAR_KEYWORD)
        ]
        seen += 1
        if given != parameters_of(line):
            other.append((method, given, line))
    assert not other
    assert seen > 1000
