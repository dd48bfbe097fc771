"""A failure is headlined by the first line of its exception."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit import errors


def _noted():
    error = RuntimeError("boom")
    error.add_note("a note")
    raise error


def _chained():
    try:
        raise KeyError("inner")
    except KeyError as inner:
        raise ValueError("outer\nmore") from inner


def _many():
    raise ValueError("first\n  detail\nlast")


def _late_message():
    raise ValueError("\nbegins on the next line\nand goes on")


def _wrong_text():
    exec("x = = 1")


def _group():
    raise ExceptionGroup("several", [ValueError("a\nb"), KeyError("c")])


@pytest.mark.parametrize(
    ("fail", "headline"),
    [
        (_many, "ValueError: first"), (_noted, "RuntimeError: boom"), (_chained, "ValueError: outer"),
        (_late_message, "ValueError: begins on the next line"),
        (_wrong_text, "SyntaxError: invalid syntax"), (_group, "ExceptionGroup: several (2 sub-exceptions)"),
    ],
)  # fmt: skip
def test_headlines(fail, headline) -> None:
    def program(comm):
        if comm.rank == 1:
            fail()
        comm.Barrier()

    with pytest.raises(lk.errors.RankError) as caught:
        lk.run(program, ranks=2, on="star")
    assert caught.value.rank == 1
    assert errors.headline(caught.value.traceback) == headline
