"""One array as send and receive buffer: refused where Open MPI refuses it, as its return codes show."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit import MPI

FORMS = ("{}", "I{}", "{}_init")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("call", "error"), [("allreduce", MPI.ERR_BUFFER), ("reduce", MPI.ERR_ARG)])
def test_reductions_refuse_one_buffer(form, call, error) -> None:
    name = form.format(call if form.startswith("I") else call.capitalize())

    def program(comm):
        def called(sent, received):
            request = getattr(comm, name)(sent, received)
            if request is not None:
                if form == "{}_init":
                    request.Start()
                request.Wait()
            return received.tolist()

        seen = []
        for _ in range(2):  # calls of a form that has been seen take another way
            values = np.ones(4)
            got = called(values, np.zeros(4))
            if comm.rank == 0 or call == "allreduce":
                assert got == [comm.size] * 4
                with pytest.raises(MPI.Exception) as caught:
                    called(values, values)
                seen.append(caught.value.Get_error_class())
                assert values.tolist() == [1] * 4
            comm.Barrier()
        return seen

    results = lk.run(program, 3, "star").results
    assert results[0] == [error, error]
    assert results[1] == ([error, error] if call == "allreduce" else [])


def test_other_calls_work_in_place_as_in_open_mpi() -> None:
    def program(comm):
        values = np.arange(4.0)
        comm.Scan(values, values)
        comm.Allreduce(values[:1], values[:1])
        comm.Allreduce(MPI.IN_PLACE, values)
        return values.tolist()

    lk.run(program, 2, "star")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_strided_message_is_replaced_where_it_lies(ranks: int) -> None:
    def program(comm):
        memory = np.arange(10.0) + 100 * comm.rank
        column = MPI.DOUBLE.Create_vector(3, 1, 3).Commit()
        comm.Sendrecv_replace(
            [memory, 1, column], (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size
        )
        column.Free()
        return memory.tolist()

    for rank, found in enumerate(lk.run(program, ranks, "star").results):
        expected = np.arange(10.0) + 100 * rank
        expected[:7:3] = np.arange(0.0, 7.0, 3.0) + 100 * ((rank - 1) % ranks)
        assert found == expected.tolist()
