"""Message programs: hand-computed times, deadlocks, and text that cannot be read."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError, DeadlockError, PlatformError
from labkit.machines import models
from tests.support.message_program import encode, run_program
from tests.support.refusals import raises_code

STAR = lk.platform("star:4,bw=1GBps,lat=1us")


def test_a_message_costs_latency_and_size_over_bandwidth() -> None:
    got = run_program("0: send 1 0 984; mark\n1: recv 0 0 984; mark", 2, STAR, "raw")
    # Detached: the sender goes on at once. 984 bytes and the envelope of 16 over 1 GB/s, after 2 us.
    assert got.marks[0] == [0.0]
    np.testing.assert_allclose(got.marks[1], [3e-6], rtol=1e-12)
    assert (got.messages, got.bytes) == (1, 984)


def test_a_rendezvous_waits_for_the_receiver() -> None:
    got = run_program("0: send 1 0 99984; mark\n1: sleep 5000; recv 0 0 99984; mark", 2, STAR, "raw")
    np.testing.assert_allclose([got.marks[0][0], got.marks[1][0]], 5e-6 + 2e-6 + 1e-4, rtol=1e-12)


def test_two_senders_share_the_way_into_a_host() -> None:
    program = (
        "0: send 2 0 999984\n1: send 2 0 999984\n2: irecv 0 0 0 999984; irecv 1 1 0 999984; waitall 0 1; mark"
    )
    np.testing.assert_allclose(run_program(program, 3, STAR, "raw").marks[2], [2e-6 + 2e-3], rtol=1e-12)


def test_overheads_are_paid_by_who_makes_the_call() -> None:
    costs = {
        "send_overhead": [[0, 1e-6, 1e-9]],
        "isend_overhead": [[0, 5e-6, 0]],
        "recv_overhead": [[0, 3e-6, 0]],
    }
    model = models.get("raw", **costs)
    got = run_program(
        "0: send 1 0 984; mark; isend 0 1 0 984; mark; wait 0\n1: recv 0 0 984; mark; recv 0 0 984; mark",
        2,
        STAR,
        model,
    )
    np.testing.assert_allclose(got.marks[0], [1.984e-6, 6.984e-6], rtol=1e-12)
    # The first arrives at 1.984 + 3, is charged 3; the second left at 6.984 and is not posted before 7.984.
    np.testing.assert_allclose(got.marks[1], [7.984e-6, 7.984e-6 + 3e-6 + 3e-6], rtol=1e-12)


def test_messages_are_kept_when_asked_for() -> None:
    got = run_program("0: send 1 7 984\n1: recv -1 -1 984", 2, STAR, "raw", keep_messages=True)
    [(source, destination, tag, size, *_, end)] = got.records
    assert (source, destination, tag, size) == (0, 1, 7, 984)
    assert end == pytest.approx(3e-6, rel=1e-12)


def test_two_receives_facing_each_other_are_a_deadlock() -> None:
    with raises_code(DeadlockError, "deadlock", "2", "3"):
        run_program("0: recv 1 0 8\n1: recv 0 0 8", 3, STAR, "raw")


@pytest.mark.parametrize("size", [8, 2**20])
def test_flat_against_binomial_broadcast(size: int) -> None:
    """With free start-ups a flat broadcast of 8 bytes wins, as on no real machine; under lab it loses."""
    p, star = 128, lk.platform("star:128,bw=1Gbps,lat=24us")
    flat = f"*: recv 0 0 {size}\n0: " + "; ".join(f"send {r} 0 {size}" for r in range(1, p))
    times = {
        (name, model): run_program(text, p, star, model).finish_s.max()
        for name, text in (("flat", flat), ("binomial", f"*: bcast {size} 0"))
        for model in ("smpi", "lab")
    }
    assert times["flat", "lab"] > times["binomial", "lab"]
    if size == 8:
        assert times["flat", "smpi"] < times["binomial", "smpi"]
        assert times["flat", "smpi"] == pytest.approx(0.127e-3, rel=0.01)
        assert times["binomial", "smpi"] == pytest.approx(0.684e-3, rel=0.01)
    else:
        assert times["flat", "smpi"] > times["binomial", "smpi"]


def test_the_same_program_twice_gives_the_same_bits() -> None:
    program = "*: alltoall 5000; allreduce 70000; bcast 100 3; mark"
    first, second = (run_program(program, 16, lk.platform("star:16"), "lab") for _ in range(2))
    assert first.marks == second.marks
    assert first.messages == 16 * 15 + 16 * 4 + 15


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        ("0: jump 3", ("invalid-value",)),
        ("0: send 1 0", ("invalid-value", "3")),
        ("0: send one 0 8", ("invalid-value",)),
        ("x: mark", ("invalid-value",)),
        ("9: mark", ("invalid-value", "2")),
        ("0: mark\n0: mark", ("invalid-value",)),
        ("*: alltoall 8 9", ("invalid-value",)),
    ],
)
def test_unreadable_text_is_refused(program: str, wanted: tuple[str, ...]) -> None:
    with raises_code(DataError, *wanted):
        encode(program, 2)


@pytest.mark.parametrize(
    "program", ["0: send 5 0 8", "0: recv 1 0 -8", "0: isend 0 1 0 8; isend 0 1 0 8", "0: wait -1"]
)
def test_impossible_operations_are_refused_by_the_engine(program: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        run_program(program, 2, STAR, "raw")


def test_the_ranks_must_fit() -> None:
    with raises_code(PlatformError, "too-many-ranks"):
        run_program("*: mark", 5, STAR, "raw")
