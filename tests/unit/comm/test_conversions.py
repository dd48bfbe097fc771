"""Arguments are converted as by mpi4py: every method, every parameter, every kind of value."""

from __future__ import annotations

import json
from collections import defaultdict

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from tests.unit.comm.conversions import HUGE, SPECS, TABLE, Scene, cases, judged, outcome

TABLES = json.loads(TABLE.read_text())
#: what labkit refuses and Open MPI does not look at, or has no use for, by method and parameter
STRICTER = {
    "it reads or writes outside the buffer, or past the parts of a message": {
        "spec.Gatherv count", "spec.Gatherv displacement", "spec.Gatherv displacements",
        "spec.Scatterv displacement", "spec.Scatterv displacements", "spec.Alltoallv displacement",
        "spec.Alltoallv displacements", "Datatype.Pack position", "Datatype.Unpack position",
        "Datatype.Pack_external position", "Datatype.Unpack_external position", "Prequest.Pready partition",
        "Prequest.Pready_range partition_low", "Prequest.Parrived partition",
    },
    "it does not look whether there is an epoch, or a rank": {
        "Win.Rput target_rank", "Win.Rget target_rank", "Win.Raccumulate target_rank", "Win.Raccumulate op",
        "Win.Rget_accumulate target_rank", "Win.Rget_accumulate op", "Win.Flush rank", "Win.Flush_local rank",
    },
    "it makes something of negative sizes, or of graphs whose parts do not agree": {
        "Win.Allocate_shared disp_unit", "Intracomm.Create_graph index", "Intracomm.Create_graph edges",
        "Intracomm.Cart_map dims", "Intracomm.Graph_map index", "Intracomm.Graph_map edges",
        "Datatype.Create_contiguous count", "Group.Translate_ranks ranks", "File.Preallocate size",
        "File.Set_view disp",
    },
    "it knows data representations that labkit does not": {
        "Datatype.Pack_external datarep", "Datatype.Unpack_external datarep",
        "Datatype.Pack_external_size datarep",
    },
    "it closes a file while a split collective is under way": {
        "File.Read_at_all_begin offset", "File.Write_at_all_begin offset",
    },
}  # fmt: skip
#: what Open MPI refuses and labkit has
WIDER = {
    "its windows of one process have no shared memory": {"Win.Shared_query rank"},
    "it makes no communicator of the group of a single process": {
        "Intracomm.Create_from_group group", "Intracomm.Create_from_group stringtag",
        "Intracomm.Create_from_group info", "Intracomm.Create_from_group errhandler",
    },
    "a count at the target beyond what is sent": {"spec.Put count"},
}  # fmt: skip
#: which class Open MPI gives them depends on its 32 bits, or on what it finds too late
OTHER_CLASS = {
    *(("Intracomm.Create_graph index", kind) for kind in ("of -1", "of -1000", "int64 of -3")),
    *((f"Datatype.{name} position", kind) for name in ("Pack", "Unpack") for kind in (*HUGE, "-2**31-1")),
    *((f"Datatype.Create_{name} count", "-2**31-1") for name in ("vector", "hvector")),
    *((f"spec.{name} count", "-2**31-1") for name in ("Gatherv", "Scatterv", "Alltoallv", "Put")),
}
ALLOWED = {
    **dict.fromkeys(set().union(*STRICTER.values()), ("accepted", "MPI")),
    **dict.fromkeys(set().union(*WIDER.values()), ("MPI", "accepted")),
}

GROUPS = sorted({full.partition(".")[0] for full in [*TABLES["signatures"], *SPECS]})


@pytest.mark.parametrize("group", GROUPS)
def test_conversions_are_those_of_mpi4py(group, tmp_path) -> None:
    expected = {
        (full, name, kind): said
        for full, names in TABLES["refused"].items()
        for name, errors in names.items()
        for said, kinds in errors.items()
        for kind in kinds
    }

    def program(comm):
        scene = Scene(MPI, str(tmp_path))
        wrong = defaultdict(list)
        tried = 0
        for case in cases(TABLES["signatures"]):
            wanted = expected.get(case, "accepted")
            if not case[0].startswith(f"{group}.") or wanted == "left out":
                continue
            tried += 1
            said = judged(outcome(scene, *case, TABLES["signatures"]))
            kinds = (wanted.split(" ")[0], said.split(" ")[0])
            is_number = case[1] == "keyval" and set(kinds) == {"accepted", "MPI"}
            is_alike = kinds == ("MPI", "MPI") and (
                said == "MPI" or (" ".join(case[:2]), case[2]) in OTHER_CLASS
            )
            if said != wanted and not is_number and not is_alike and ALLOWED.get(" ".join(case[:2])) != kinds:
                wrong[f"mpi4py: {wanted}, here: {said}"].append(" ".join(case))
        return tried, dict(wrong)

    (tried, wrong), *_ = lk.run(program, 1, "star:1", isolate=False).results
    assert tried > 20
    assert wrong == {}


class _Int:
    def __int__(self) -> int:
        return 1


class _Index:
    def __index__(self) -> int:
        return 1


#: calls with arguments in sequences and of functions, and what mpi4py on Open MPI makes of an object with
#: __int__, one with __index__, a float, None, a text and 2^40
ODD = {
    "Range_incl": (lambda comm, v: comm.group.Range_incl([(0, 0, v)]).size, [1, "TypeError", 1]),
    "Compute_dims": (lambda comm, v: MPI.Compute_dims(4, v), ["TypeError", [4], "TypeError"]),
    "Create_f90_integer": (lambda comm, v: MPI.Datatype.Create_f90_integer(v).size, [1, "TypeError", 1]),
    "Pcontrol": (lambda comm, v: MPI.Pcontrol(v), [None, "TypeError", None]),
}


@pytest.mark.parametrize("name", ODD)
def test_conversions_in_sequences_and_functions(name) -> None:
    call, wanted = ODD[name]

    def program(comm):
        found = []
        for value in (_Int(), _Index(), 1.0, None, "1", 2**40):
            try:
                found.append(call(comm, value))
            except Exception as error:
                found.append(type(error).__name__)
        return found

    found = lk.run(program, 1, "star:1", isolate=False).results[0]
    assert found == [*wanted, "TypeError", "TypeError", "OverflowError"]


def test_classes_of_errors_of_numbers() -> None:
    def program(comm):
        info = MPI.Info.Create()
        found = []
        for call in (lambda: info.Get_nthkey(0), lambda: info.Get_nthkey(-1), lambda: MPI.Pcontrol(-1)):
            with pytest.raises(MPI.Exception) as caught:
                call()
            found.append(caught.value.Get_error_class())
        return found

    wanted = [MPI.ERR_INFO_KEY, MPI.ERR_ARG, MPI.ERR_ARG]
    assert lk.run(program, 1, "star:1", isolate=False).results[0] == wanted


@pytest.mark.parametrize("text", [np.str_("1"), np.bytes_(b"1"), "1", b"1"])
def test_texts_are_no_whole_numbers(text) -> None:
    """Those of NumPy have ``__int__``, and mpi4py refuses them all the same."""

    def program(comm):
        calls = (
            MPI.DOUBLE.Create_contiguous,
            comm.Split,
            lambda one: comm.bcast(0, root=one),
            lambda one: MPI.Compute_dims(one, 1),
            lambda one: comm.Create_cart([one]),
        )
        for call in calls:
            with pytest.raises(TypeError):
                call(text)

    lk.run(program, 1, on="star")
