"""Native reductions agree with NumPy on every type MPI defines them for."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
import labkit.schedule
import labkit.sim.schedules
from labkit import _kernels, registry
from labkit.errors import ScheduleError
from labkit.schedule import block, build
from labkit.schedule.execute import as_combine, type_code
from labkit.sim.schedules import perform, simulate
from tests.support.refusals import raises_code

UFUNCS = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "land": np.logical_and,
    "lor": np.logical_or,
    "lxor": np.logical_xor,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
FLOATS = ["f2", "f4", "f8", np.dtype(np.longdouble).str[1:]]
COMPLEX = ["c8", "c16", np.dtype(np.clongdouble).str[1:]]
ANY, BITS, ARITHMETIC = set(UFUNCS), {"band", "bor", "bxor"}, {"sum", "prod"}
DEFINED = (
    [(op, t) for t in INTEGERS for op in ANY]
    + [(op, t) for t in FLOATS for op in ANY - BITS]
    + [(op, t) for t in COMPLEX for op in ARITHMETIC]
    + [(op, "b1") for op in ANY - ARITHMETIC]
)


def operand(rng: np.random.Generator, code: str, n: int = 1000) -> np.ndarray:
    dtype = np.dtype("?" if code == "b1" else code)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, n, dtype, endpoint=True)
    if dtype.kind == "b":
        return rng.random(n) < 0.5
    values = rng.normal(size=n) * np.exp(rng.normal(size=n) * 4)
    values[::17] = 0
    with np.errstate(over="ignore"):  # half precision: infinities are welcome
        return (values + 1j * rng.permutation(values) if dtype.kind == "c" else values).astype(dtype)


@pytest.mark.parametrize(("operation", "code"), sorted(DEFINED))
def test_agrees_with_numpy(operation: str, code: str) -> None:
    rng = np.random.default_rng(5)
    left, right = operand(rng, code), operand(rng, code)
    assert type_code(left.dtype) == code
    with np.errstate(all="ignore"):
        wanted = UFUNCS[operation](left, right).astype(left.dtype)
    reduction = _kernels.native_reduction(operation, code)
    for source, target, is_source_first in [(left, right, True), (right, left, False)]:
        result = target.copy()
        reduction.apply(source.view(np.uint8), result.view(np.uint8), is_source_first)
        if code.startswith("c") and operation == "prod":  # NumPy fuses multiply and add where it can
            assert (abs(result - wanted) <= 4 * np.finfo(wanted.dtype).eps * abs(wanted)).all()
        else:
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("code", ["f8", "f4", "i2", "i4", "i8"])
def test_locations(code: str) -> None:
    pair = np.dtype([("value", code), ("index", "i4")], align=True)
    rng = np.random.default_rng(6)
    operands = np.zeros((5, 40), pair)
    operands["value"] = rng.integers(0, 3, (5, 40))
    operands["index"] = rng.integers(0, 100, (5, 40))
    buffers = [{"send": row, "recv": np.zeros(40, pair)} for row in operands]
    perform(registry.get("allreduce", "recursive_doubling").build(5, commutative=False), buffers, op="maxloc")
    largest = operands["value"].max(axis=0)
    index = np.where(operands["value"] == largest, operands["index"], 1000).min(axis=0)
    for buffer in buffers:
        np.testing.assert_array_equal(buffer["recv"]["value"], largest)
        np.testing.assert_array_equal(buffer["recv"]["index"], index)


def test_unaligned_records_are_fine() -> None:
    packed = np.zeros(8 * 4 + 1, np.uint8)[1:].view("f8")
    packed[:] = [1, 2, 3, 4]
    result = np.array([1.0, 1.0, 1.0, 1.0])
    _kernels.native_reduction("sum", "f8").apply(packed.view(np.uint8), result.view(np.uint8), True)
    np.testing.assert_array_equal(result, [2, 3, 4, 5])


def test_what_is_not_defined_is_refused() -> None:
    with raises_code(ScheduleError, "malformed-schedule", "'band'"):
        as_combine("band", np.dtype("f8"))
    with raises_code(ScheduleError, "malformed-schedule", "'plus'"):
        as_combine("plus", np.dtype("f8"))
    with raises_code(ScheduleError, "wrong-type"):
        as_combine(3, np.dtype("f8"))


def test_an_operators_error_comes_out() -> None:
    def fails(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("mine")

    buffers = [{"send": np.ones(2), "recv": np.ones(2)} for _ in range(4)]
    with pytest.raises(ZeroDivisionError, match="mine"):
        perform(registry.get("allreduce", "ring").build(4), buffers, op=fails)


def test_a_generators_error_comes_out() -> None:
    def broken(group):
        yield group.send(block("data"), to=1, where=group.ranks == 0)
        raise RuntimeError("generator")

    with pytest.raises(RuntimeError, match="generator"):
        simulate(build("bcast", broken, 2))


def test_native_runs_refuse_what_deadlocks() -> None:
    def waits_for_ever(group):
        yield group.recv(block("data"), source=0, where=group.ranks == 1)

    def sends_for_nobody(group):
        yield group.isend(block("data"), to=1, where=group.ranks == 0) + group.wait(group.ranks == 0)

    with raises_code(ScheduleError, "malformed-schedule", "1", "rank 1", "rank 0"):
        simulate(build("bcast", waits_for_ever, 2))
    with raises_code(ScheduleError, "malformed-schedule", "1"):
        simulate(build("bcast", sends_for_nobody, 2), n_bytes=1 << 20)


def test_bad_buffers_are_refused() -> None:
    gather = registry.get("gather", "linear").build(2)
    one = {"send": np.zeros(3)}
    with raises_code(ScheduleError, "missing-key", "rank 0", "'recv'"):
        perform(gather, [one, one])
    with raises_code(ScheduleError, "count-mismatch", "2"):
        perform(gather, [{**one, "recv": np.zeros(7)}, one])
    with raises_code(ScheduleError, "malformed-schedule"):
        perform(gather, [{"send": np.zeros(2), "recv": np.zeros(4)}, one])
    with raises_code(ScheduleError, "count-mismatch", "2", "1"):
        perform(gather, [one])
    with raises_code(ScheduleError, "missing-key", "op="):
        perform(registry.get("scan", "linear").build(1), [{"send": np.zeros(1), "recv": np.zeros(1)}])


def test_an_operators_error_belongs_to_the_rank_that_combined() -> None:
    """Also when the engine was at work for another rank, and some ranks never came."""

    def program(comm, everybody: bool) -> None:
        def fails(left: memoryview, right: memoryview, datatype: object) -> None:
            raise ValueError("my operator")

        if everybody or comm.rank < 2:
            comm.Allreduce(np.ones(1), np.empty(1), lk.MPI.Op.Create(fails, commute=True))

    for everybody in (True, False):
        with raises_code(lk.errors.RankError, "rank-failed"):
            lk.run(program, 5, "star:5", args=(everybody,))
