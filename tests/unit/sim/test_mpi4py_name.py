"""The name mpi4py on a simulated machine, with a library's own module that is only looked like."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import labkit as lk
from labkit.errors import RankError
from tests.support.refusals import raises_code


class Intracomm:
    """A communicator of a world of one."""

    size = 1


Intracomm.__module__ = "mpi4py.MPI"


@pytest.fixture
def own(monkeypatch):
    """A package mpi4py whose module is the library's, as far as names tell."""
    package, module = ModuleType("mpi4py"), ModuleType("mpi4py.MPI")
    module.COMM_WORLD, module.ANY_TAG, module.only_there = Intracomm(), -1, Intracomm()
    package.MPI = module
    monkeypatch.setitem(sys.modules, "mpi4py", package)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", module)
    return package


def test_a_module_imported_before_the_run_is_replaced(own):
    MPI, world = own.MPI, own.MPI.COMM_WORLD  # noqa: N806 - as programs call it

    def program(comm):
        return MPI.COMM_WORLD.size, world.size, own.MPI.COMM_WORLD.size, comm.size

    assert lk.run(program, 5, "star").results == [(5, 5, 5, 5)] * 5
    assert sys.modules["mpi4py.MPI"] is MPI


def test_an_import_inside_the_program_gives_the_simulated_module(own):
    def program(comm):
        from mpi4py import MPI

        return MPI.COMM_WORLD.size

    assert lk.run(program, 3, "star").results == [3] * 3
    assert sys.modules["mpi4py"] is own


def test_without_the_library_the_name_is_there_in_the_run_only(monkeypatch):
    monkeypatch.delitem(sys.modules, "mpi4py", raising=False)
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)

    def program(comm):
        import mpi4py.MPI

        if comm.size == 4:
            raise KeyError("left by an exception")
        return mpi4py.MPI.COMM_WORLD.rank

    assert lk.run(program, 3, "star").results == [0, 1, 2]
    assert "mpi4py" not in sys.modules
    with raises_code(RankError, "rank-failed"):
        lk.run(program, 4, "star")
    assert "mpi4py" not in sys.modules


def test_what_is_not_simulated_is_refused_by_name(own):
    def program(comm):
        import mpi4py.gl  # noqa: F401

    with raises_code(RankError, "unsupported", "mpi4py.gl"):
        lk.run(program, 2, "star")
