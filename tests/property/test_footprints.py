"""Footprints of accesses against sets of bytes: what they touch, where they meet, which accesses race."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from labkit import MPI
from labkit.comm.buffers import Simple
from labkit.comm.place import Place
from labkit.comm.rma.races import Access, Accesses, Footprint, Pieces, Strided, _agree, footprint_of, meet
from labkit.comm.typed import runs_of

small = st.integers(0, 12)


@st.composite
def footprints(draw):
    low = draw(st.integers(0, 60))
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return Footprint(low, low + draw(st.integers(1, 40)))
    if kind == 1:
        length = draw(st.integers(1, 6))
        stride, count = length + draw(st.integers(1, 8)), draw(st.integers(2, 7))
        return Footprint(low, low + stride * (count - 1) + length, Strided(length, stride, count))
    ends = np.cumsum(
        draw(st.lists(st.integers(1, 6), min_size=4, max_size=10).filter(lambda x: len(x) % 2 == 0))
    )
    begins, ends = ends[::2] - ends[0], ends[1::2] - ends[0]
    return Footprint(low, low + int(ends[-1]), Pieces(begins, ends))


def touched(one):
    return {byte for low, high in one.pieces() for byte in range(low, high)}


@given(footprints(), footprints())
def test_footprints_meet_where_their_bytes_do(first, second):
    common = touched(first) & touched(second)
    for found in (meet(first, second), meet(second, first)):
        assert (found is not None) == bool(common)
        if found is not None:
            assert found[0] == min(common)
            assert set(range(*found)) <= common
            assert (
                found[1] not in common
                or found[1] == max(common) + 1
                or found[1] in {end for one in (first, second) for _, end in one.pieces()}
            )


kinds = st.sampled_from(["put", "get", "NO_OP", "SUM f8", "MAX f8"])


@given(st.lists(st.tuples(footprints(), kinds, st.integers(0, 2)), max_size=12), st.integers(-1, 2))
def test_races_are_those_of_all_pairs(accesses, closed):
    open_ones, noted = [], Accesses()
    for number, (where, kind, origin) in enumerate(accesses):
        if number == 8:
            noted.close(None if closed < 0 else closed)
            open_ones = [] if closed < 0 else [one for one in open_ones if one[2] != closed]
        told = set()
        noted.add(
            where,
            Access(kind, "Put", origin, Place(None, number)),
            lambda other, *_, to=told: to.add(other.kind),
        )
        expected = {
            other_kind for other, other_kind, _ in open_ones
            if touched(other) & touched(where) and not _agree(other_kind, kind)
        }  # fmt: skip
        assert told == expected
        open_ones.append((where, kind, origin))
    bytes_of_all = set().union(*(touched(where) for where, _ in noted.all()))
    assert bytes_of_all == set().union(*(touched(where) for where, _, _ in open_ones))


@given(st.integers(1, 4), small, st.integers(1, 5), st.integers(1, 4), st.integers(-9, 9), st.booleans())
def test_a_datatypes_footprint_is_its_bytes(count, blocks, length, elements, stride, is_nested):
    kind = MPI.INT16_T.Create_vector(max(blocks, 1), length, stride if abs(stride) >= length else length + 1)
    if is_nested:
        kind = kind.Create_hvector(2, 1, 501)
    kind = kind.Create_resized(0, 2003).Commit()
    place = Simple(np.zeros(0, np.uint8), 4000, elements, kind)
    for n_bytes in (None, max(place.count * kind.size - count, 1)):
        runs = {byte for low, high in runs_of(place, n_bytes) for byte in range(low, high)}
        assert touched(footprint_of(place, n_bytes)) == runs
        assert touched(footprint_of(place, n_bytes, 7)) == {byte + 7 for byte in runs}


def test_a_column_is_one_footprint_and_columns_side_by_side_do_not_meet():
    n = 512
    column = MPI.DOUBLE.Create_vector(n, 1, n).Commit()
    found = [footprint_of(Simple(np.zeros(0, np.uint8), 8 * k, 1, column)) for k in (0, 5)]
    assert all(one.shape == Strided(8, 8 * n, n) for one in found)
    assert meet(*found) is None
