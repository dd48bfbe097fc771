"""Programs without a late rank: no wait state is claimed that takes a hundredth of the time."""

from __future__ import annotations

import pytest

import labkit as lk
from tests.support.healthy import HEALTHY, program


def test_there_are_many_of_several_kinds() -> None:
    assert len(HEALTHY) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name", HEALTHY)
def test_no_wait_state_of_note_is_claimed(name: str) -> None:
    for ranks in (2, 4, 7, 16):
        run = lk.run(program, ranks, on=f"star:{ranks}", trace=True, name=name)
        waiting = run.waits()
        for state, share in waiting.severity("state")[["state", "of_time"]].to_numpy().tolist():
            assert share < 0.01, (state, ranks)
        assert "goes back" not in waiting.reading()
