"""The wait-for graph of a deadlock: every wait an arrow, the cycle told apart, drawn in a failing cell."""

from __future__ import annotations

import pickle
import re
from base64 import b64decode
from xml.etree import ElementTree

import pytest

import labkit as lk
from labkit.errors import DataError, DeadlockError
from tests.support.refusals import raises_code


def deadlock(program, ranks):
    with pytest.raises(DeadlockError) as caught:
        lk.run(program, ranks=ranks, on="star")
    return pickle.loads(pickle.dumps(caught.value))


def arrows(drawing):
    found = re.findall(r"<title>rank (\d+) waits for rank (\d+)</title>", drawing.svg)
    ElementTree.fromstring(drawing.svg)  # it is XML
    return {(int(a), int(b)) for a, b in found}


def ring(comm):
    comm.recv(source=(comm.rank + 1) % comm.size)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_a_ring_of_waits(ranks):
    error = deadlock(ring, ranks)
    drawing = lk.plot.wait_for(error)
    assert arrows(drawing) == {(r, (r + 1) % ranks) for r in range(ranks)}
    assert sorted(error.cycle) == list(range(ranks))
    assert f"{ranks} of {ranks} ranks wait forever" in drawing.reading
    assert drawing.svg.count("url(#labkit-cycle)") == ranks


def test_many_ranks_are_drawn_in_part_and_it_says_so():
    drawing = lk.plot.wait_for(deadlock(ring, 40))
    assert drawing.svg.count("<circle") == 24
    assert "24 of 40 waiting ranks drawn" in drawing.svg


def test_ranks_that_have_ended_are_told_apart():
    def program(comm):
        if comm.rank:
            comm.recv(source=0)

    error = deadlock(program, 4)
    drawing = lk.plot.wait_for(error)
    assert arrows(drawing) == {(1, 0), (2, 0), (3, 0)}
    assert drawing.svg.count("stroke-dasharray") == 1
    assert not error.cycle
    assert drawing.reading.startswith("3 of 4 ranks wait forever")


def test_a_drawing_is_a_file(tmp_path):
    drawing = lk.plot.wait_for(deadlock(ring, 3))
    assert drawing.save(tmp_path / "waits.svg").read_text() == drawing.svg
    shown = drawing._repr_mimebundle_()
    assert shown["image/svg+xml"] == drawing.svg
    # as a picture in a page, which a notebook that is not trusted shows as well
    code = re.search(r'^<img alt="[^"]+" src="data:image/svg\+xml;base64,([^"]+)">$', shown["text/html"])
    assert b64decode(code[1]).decode() == drawing.svg
    with raises_code(DataError, "unknown-format"):
        drawing.save(tmp_path / "waits.png")


def test_what_is_no_deadlock_is_refused():
    with raises_code(DataError, "wrong-type", "ValueError"):
        lk.plot.wait_for(ValueError())
    with raises_code(DataError, "not-recorded"):
        lk.plot.wait_for(DeadlockError("told by somebody"))
