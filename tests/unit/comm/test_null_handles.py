"""Every method and property refuses a null handle, with the error class of its kind, as on real MPI."""

from __future__ import annotations

import inspect

import pytest

import labkit as lk
from labkit import MPI
from tests.unit.comm.conversions import Scene, good_values

KINDS = {
    **dict.fromkeys(("Comm", "Intracomm", "Intercomm", "Cartcomm", "Graphcomm", "Distgraphcomm"), "ERR_COMM"),
    "Win": "ERR_WIN",
    "File": "ERR_FILE",
    "Datatype": "ERR_TYPE",
    "Group": "ERR_GROUP",
}
#: what mpi4py answers without MPI, what ends or frees, and what MPI defines on a null handle
ANSWERED = {
    "Get_name", "name", "free", "handle", "py2f", "toint", "Abort", "tocode", "typechar", "typestr",
    "is_predefined", "code", "dtype", "File.Get_errhandler", "File.Set_errhandler", "File.Call_errhandler",
}  # fmt: skip


def attempts(scene, cls):
    """Yield name and call for all that an object of a class has and that good arguments are known for."""
    null = cls()
    for name in dir(cls):
        if name[0] == "_" or {name, f"{cls.__name__}.{name}"} & ANSWERED:
            continue
        found = inspect.getattr_static(cls, name)
        if isinstance(found, property):
            yield name, lambda name=name: getattr(null, name)
        elif callable(found) and not isinstance(found, type):
            wanted = [
                one.name
                for one in list(inspect.signature(getattr(cls, name)).parameters.values())[1:]
                if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
            ]
            good = good_values(scene, scene.comm, name) | ({"flag": bytearray(4)} if name == "Iagree" else {})
            if all(one in good for one in wanted):
                given = {one: good[one] for one in wanted if one != "info"} | (
                    {"info": MPI.Info.Create()} if "info" in wanted else {}
                )
                yield name, lambda name=name, given=given: getattr(null, name)(**given)


@pytest.mark.parametrize("kind", KINDS)
def test_null_handles_are_refused(kind, tmp_path) -> None:
    def program(comm):
        found = {}
        for name, call in attempts(Scene(MPI, str(tmp_path)), getattr(MPI, kind)):
            try:
                found[name] = repr(call())
            except MPI.Exception as error:
                found[name] = error.Get_error_class()
            except Exception as error:
                found[name] = repr(error)
        return found

    found = lk.run(program, 1, "star:1", isolate=False).results[0]
    wanted = getattr(MPI, KINDS[kind])
    assert len(found) > 10
    assert {name: what for name, what in found.items() if what != wanted} == {}
