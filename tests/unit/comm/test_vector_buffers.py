"""Messages of many blocks: read as arrays, with the same answers as block by block."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit import MPI
from labkit.comm.buffers import parse_vector, parse_vector_w

small = st.integers(-2, 6)
huge = st.sampled_from([2**60, 2**61 + 5, 2**63 - 1, -(2**63)])


def first_refusal(sizes: list[int], places: list[int], elements: int) -> str | None:
    """Go through the blocks one by one, in exact integers: what is wrong with the first bad one."""
    if min(sizes) < 0:
        return f"counts are 0 or more, got {min(sizes)}"
    for size, place in zip(sizes, places, strict=True):
        if size and place < 0:
            return f"negative displacement {place} of a block of {size}"
        if size and place + size > elements:
            return f"{size} elements of MPI_LONG end at byte {8 * (place + size)} of"
    return None


@settings(deadline=None)  # on a busy machine an example may take long
@given(st.lists(st.tuples(small | huge, small | huge), min_size=1, max_size=6), st.integers(1, 8))
def test_the_first_block_without_a_place_is_refused(blocks: list[tuple[int, int]], elements: int) -> None:
    sizes, places = [b[0] for b in blocks], [b[1] for b in blocks]
    message = [np.zeros(elements, np.int64), (np.array(sizes), places)]
    expected = first_refusal(sizes, places, elements)
    if expected is None:
        vector = parse_vector(message, False, len(blocks))
        assert vector.counts.tolist() == sizes
        assert vector.displs.tolist() == places
        return
    with pytest.raises(MPI.Exception if min(sizes) < 0 else ValueError, match=re.escape(expected)):
        parse_vector(message, False, len(blocks))


@pytest.mark.parametrize("kind", [list, np.int32, np.uint8, np.uint64])
def test_counts_come_as_lists_or_as_integer_arrays(kind: type) -> None:
    counts = [1, 0, 2] if kind is list else np.array([1, 0, 2], kind)
    vector = parse_vector([np.arange(3.0), counts], False, 3)
    assert vector.counts.tolist() == [1, 0, 2]
    assert vector.displs.tolist() == [0, 1, 1]


def test_without_counts_the_buffer_is_dealt_evenly() -> None:
    vector = parse_vector(np.arange(8.0), False, 3)
    assert vector.counts.tolist() == [3, 3, 2]
    assert vector.displs.tolist() == [0, 3, 6]


def test_later_changes_of_the_counts_do_not_reach_the_message() -> None:
    counts = np.array([1, 2])
    vector = parse_vector([np.arange(3.0), counts], False, 2)
    counts[:] = 7
    assert vector.counts.tolist() == [1, 2]


@pytest.mark.parametrize("bad", [[1.0, 2.0], np.array([1.0, 2.0]), np.array([[1], [2]])])
def test_counts_must_be_integers(bad: object) -> None:
    with pytest.raises(TypeError):
        parse_vector([np.arange(3.0), bad], False, 2)


def test_too_few_counts() -> None:
    with pytest.raises(ValueError, match="expecting 3 counts, got 2"):
        parse_vector([np.arange(3.0), np.array([1, 2])], False, 3)


def test_bytes_of_counts_that_overflow_are_refused() -> None:
    with pytest.raises(ValueError, match="of a buffer of 32 bytes"):
        parse_vector_w([np.zeros(4), [2**61, 0], [0, 0], [MPI.DOUBLE] * 2], False, 2)


@pytest.mark.parametrize("call", ["Recv", "Irecv", "Sendrecv", "Bcast"])
def test_a_type_of_addresses_is_received_into_from_bottom(call: str) -> None:
    """Its place is address 0, which is no phantom's."""

    def program(comm: Any) -> list[float]:
        sent, found = np.arange(4.0), np.zeros(4)
        addresses = [MPI.Get_address(found) + 16, MPI.Get_address(found)]
        to = [MPI.BOTTOM, 1, MPI.DOUBLE.Create_hindexed([2, 2], addresses).Commit()]
        if call == "Sendrecv":
            comm.Sendrecv(sent, 0, 0, to, 0, 0)
        elif call == "Bcast":
            found[:] = sent
            comm.Bcast(to)
            return list(np.roll(found, 2))
        else:
            request = comm.Isend(sent, 0)
            comm.Recv(to, 0) if call == "Recv" else comm.Irecv(to, 0).Wait()
            request.Wait()
        return found.tolist()

    assert lk.run(program, 1, on="star").results == [[2.0, 3.0, 0.0, 1.0]]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_blocks_of_several_elements_have_addresses_as_displacements(count: int) -> None:
    def program(comm: Any) -> list[float]:
        sent, found = np.arange(count * comm.size) + 100 * comm.rank, np.zeros(count * comm.size, int)
        places = np.arange(comm.size) * count * sent.itemsize
        messages = [
            [MPI.BOTTOM, ([count] * comm.size, MPI.Get_address(part) + places), [MPI.LONG] * comm.size]
            for part in (sent, found)
        ]
        comm.Alltoallw(*messages)
        return found.tolist()

    wanted = [[100 * k + rank * count + i for k in range(3) for i in range(count)] for rank in range(3)]
    assert lk.run(program, 3, on="star").results == wanted
