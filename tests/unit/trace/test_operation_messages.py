"""Messages belong to the collective that sent them, also those that arrive after it is over at the sender."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 7, 8])
@pytest.mark.parametrize("count", [1, 2000, 20_000])
@pytest.mark.parametrize("name", ["Iallreduce", "Ialltoall"])
def test_each_of_several_collectives_has_its_own_messages(name: str, count: int, ranks: int) -> None:
    def program(comm) -> None:
        for _ in range(4):
            out = np.empty(count * comm.size)
            given = np.ones(count * comm.size)
            getattr(comm, name)(given, out).Wait()

    trace = lk.run(program, ranks, f"star:{ranks}", trace=True).trace
    turn = trace.operations.groupby("rank").cumcount()
    messages = trace.messages
    sent, got = messages["send_operation"].map(turn), messages["recv_operation"].map(turn)
    assert (sent == got).all()
    assert sorted(set(sent)) == [0, 1, 2, 3]
    assert messages.groupby(sent).size().nunique() == 1
