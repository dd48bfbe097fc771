"""Random datatypes beside those of a real MPI in this process: bounds, contents, packed bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from labkit.comm.module import simulated_module

pytestmark = pytest.mark.mpi
MPI = simulated_module()

_BASICS = ("INT", "DOUBLE", "CHAR", "SHORT", "C_DOUBLE_COMPLEX", "LONG_DOUBLE", "DOUBLE_INT", "SHORT_INT")
_small = st.integers(1, 3)
_place = st.integers(-4, 6)
_sides = st.integers(1, 4)


@st.composite
def subarrays(draw: Any) -> tuple[Any, ...]:
    """Sizes, subsizes, starts and order."""
    sizes = draw(st.lists(_sides, min_size=1, max_size=3))
    parts = [draw(st.integers(1, size)) for size in sizes]
    starts = [draw(st.integers(0, size - part)) for size, part in zip(sizes, parts, strict=True)]
    return "Create_subarray", (sizes, parts, starts, draw(st.sampled_from((MPI.ORDER_C, MPI.ORDER_F))))


@st.composite
def darrays(draw: Any) -> tuple[Any, ...]:
    """A rank's part of a distributed array."""
    axes = draw(st.integers(1, 2))
    sizes = [draw(st.integers(1, 7)) for _ in range(axes)]
    grid = [draw(st.integers(1, 3)) for _ in range(axes)]
    ways = [draw(st.sampled_from((MPI.DISTRIBUTE_BLOCK, MPI.DISTRIBUTE_CYCLIC))) for _ in range(axes)]
    blocks = [draw(st.sampled_from((MPI.DISTRIBUTE_DFLT_DARG, 7, 8))) for _ in range(axes)]
    ranks = int(np.prod(grid))
    rank = draw(st.integers(0, ranks - 1))
    return "Create_darray", (ranks, rank, sizes, ways, blocks, grid, draw(st.sampled_from((0, 1))))


@st.composite
def steps(draw: Any) -> tuple[Any, ...]:
    """One constructor and its arguments."""
    lengths = draw(st.lists(_small, min_size=1, max_size=3))
    places = [draw(_place) for _ in lengths]
    name, arguments = draw(
        st.sampled_from(
            (
                ("Create_contiguous", (draw(_small),)),
                ("Create_vector", (draw(_small), draw(_small), draw(_place))),
                ("Create_hvector", (draw(_small), draw(_small), 8 * draw(_place))),
                ("Create_indexed", (lengths, places)),
                ("Create_hindexed", (lengths, [5 * place for place in places])),
                ("Create_indexed_block", (draw(_small), places)),
                ("Create_hindexed_block", (draw(_small), [16 * place for place in places])),
                ("Create_resized", (8 * draw(_place), 8 * draw(st.integers(0, 20)))),
                ("Dup", ()),
            )
        )
    )
    return name, arguments


_chains = st.lists(steps() | subarrays() | darrays(), max_size=3)
_types = st.tuples(st.sampled_from(_BASICS), _chains)
#: aligned: how an extent is rounded elsewhere is each library's own affair
_structs = st.lists(
    st.tuples(_types, _small, st.integers(-3, 12).map(lambda n: 16 * n)), min_size=1, max_size=3
)


def _build(module: Any, plan: Any) -> Any:
    """Build a datatype, or say which class its error has."""
    try:
        if isinstance(plan, list):
            kinds = [_built(module, kind) for kind, _, _ in plan]
            made = module.Datatype.Create_struct([n for _, n, _ in plan], [at for _, _, at in plan], kinds)
        else:
            made = _built(module, plan)
        return made.Commit()
    except module.Exception as error:
        return error.Get_error_class()


def _built(module: Any, plan: Any) -> Any:
    basic, chain = plan
    kind = getattr(module, basic)
    for name, arguments in chain:
        kind = getattr(kind, name)(*arguments)
        if kind.size == 0:  # of what is made of nothing Open MPI says nothing sensible
            reject()
    return kind


@settings(max_examples=60, deadline=None)
@given(plan=_types | _structs, count=st.integers(0, 3), seed=st.integers(0, 99))
def test_the_same_type_and_the_same_bytes(plan: Any, count: int, seed: int) -> None:
    from mpi4py import MPI as REAL

    mine, theirs = _build(MPI, plan), _build(REAL, plan)
    if isinstance(theirs, int) or isinstance(mine, int):
        assert mine == theirs
        return
    assert (mine.size, mine.Get_extent()) == (theirs.size, theirs.Get_extent())
    assert mine.Get_true_extent() == theirs.Get_true_extent()
    assert mine.Get_envelope() == theirs.Get_envelope()
    if not mine.is_named:
        assert mine.Get_contents()[:3] == theirs.Get_contents()[:3]
    begin, end = mine.true_lb, mine.true_ub
    if not 0 <= begin <= end or mine.extent < end or mine.size == 0:
        return  # mpi4py would pack from foreign memory
    memory = np.random.default_rng(seed).integers(0, 256, count * mine.extent, np.uint8)
    for pack, unpack in (("Pack", "Unpack"), ("Pack_external", "Unpack_external")):
        if pack != "Pack" and "LONG_DOUBLE" in str(plan):
            continue  # external32 has another form of it
        front = () if pack == "Pack" else ("external32",)
        mine_back = (MPI.COMM_SELF,) if pack == "Pack" else ()
        their_back = (REAL.COMM_SELF,) if pack == "Pack" else ()
        packed = [np.zeros(count * mine.size + 3, np.uint8) for _ in range(2)]
        ends = (
            getattr(mine, pack)(*front, memory, packed[0], 2, *mine_back),
            getattr(theirs, pack)(*front, memory, packed[1], 2, *their_back),
        )
        assert ends[0] == ends[1]
        assert packed[0].tobytes() == packed[1].tobytes()
        spread = [np.zeros(len(memory), np.uint8) for _ in range(2)]
        getattr(mine, unpack)(*front, packed[0], 2, spread[0], *mine_back)
        getattr(theirs, unpack)(*front, packed[1], 2, spread[1], *their_back)
        assert spread[0].tobytes() == spread[1].tobytes()
