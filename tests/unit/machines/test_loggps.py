"""LogGPS: its figures by hand, and how a model without contention mispredicts a hierarchical network."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit.errors import DataError
from labkit.machines import models, platform
from tests.support.message_program import run_program
from tests.support.refusals import raises_code

BW, LAT = 1e9, 1e-6
STAR = "star:8,bw=1GBps,lat=1us"
L, G = 2 * LAT, 1 / BW


def marks(program: str, **options: object) -> list[list[float]]:
    plain = {"send_overhead": [], "isend_overhead": [], "recv_overhead": [], "envelope_bytes": 0}
    return run_program(program, 8, platform(STAR), models.get("loggps", **(plain | options))).marks


def test_a_message_takes_l_plus_g_per_byte() -> None:
    got = marks("0: send 1 0 5000; mark\n1: recv 0 0 5000; mark\n")
    assert got[0] == [0.0]
    assert got[1] == pytest.approx([L + 5000 * G], rel=1e-12)


def test_l_and_both_gaps_can_be_numbers() -> None:
    """Two messages: the second leaves g + G k later, is taken in one gap later, too."""
    fixed = {"latency_s": 5e-6, "gap_s": 2e-6, "gap_per_byte_s": 3e-9}
    program = (
        "0: send 1 0 1000; send 2 0 1000; send 1 1 1000\n2: recv 0 0 1000; mark\n"
        "1: recv 0 0 1000; mark; recv 0 1 1000; mark\n"
    )
    got = marks(program, **fixed)
    assert got[1] == pytest.approx([5e-6 + 3e-6, 5e-6 + 2 * (2e-6 + 3e-6) + 3e-6], rel=1e-12)
    assert got[2] == pytest.approx([5e-6 + (2e-6 + 3e-6) + 3e-6], rel=1e-12)


def test_messages_meet_at_the_interface_of_their_destination() -> None:
    program = (
        "0: send 2 0 5000\n1: send 2 1 5000\n"
        "2: irecv 0 0 0 5000; irecv 1 1 1 5000; wait 0; mark; wait 1; mark\n"
    )
    assert marks(program)[2] == pytest.approx([L + 5000 * G, L + 2 * 5000 * G], rel=1e-12)


def test_overheads_and_the_threshold_s() -> None:
    """o is the processor's; from S on the sender waits until the receive is posted, 50 us from the start."""
    costs = {"send_overhead": [[0, 4e-6, 0.0]], "recv_overhead": [[0, 6e-6, 0.0]]}
    program = "0: send 1 0 1000; mark\n1: recv 0 0 1000; mark\n"
    got = marks(program, **costs)
    assert got[0] == pytest.approx([4e-6], rel=1e-12)
    assert got[1] == pytest.approx([4e-6 + L + 1000 * G + 6e-6], rel=1e-12)
    late = "0: send 1 0 70000; mark\n1: sleep 50000; recv 0 0 70000; mark\n"
    assert marks(late)[0] == marks(late)[1] == pytest.approx([50e-6 + L + 70000 * G], rel=1e-12)
    late_small = "0: send 1 0 1000; mark\n1: sleep 50000; recv 0 0 1000; mark\n"
    assert marks(late_small)[0] == [0.0]
    assert marks(late_small)[1] == pytest.approx([50e-6], rel=1e-12)  # it had arrived before


def test_the_network_between_does_not_matter() -> None:
    """Eight pairs over one narrow trunk take as long as one pair: that is what the model cannot see."""
    trunk = "fattree:8x2:1x1:1x1,bw=1GBps,lat=1us"

    def program(pairs: int) -> str:
        return "".join(
            f"{r}: send {r + 8} 0 1000000\n{r + 8}: recv {r} 0 1000000; mark\n" for r in range(pairs)
        )

    def last(pairs: int, model: str) -> float:
        return max(
            max(m, default=0.0)
            for m in run_program(program(pairs), 16, platform(trunk), models.get(model)).marks
        )

    assert last(8, "loggps") == last(1, "loggps")
    assert last(8, "raw") == pytest.approx(8 * last(1, "raw"), rel=0.01)


def test_there_is_no_link_to_explain_it_by() -> None:
    run = lk.run(lambda comm: comm.barrier(), 2, "star:2", model="loggps", trace=True)
    with raises_code(DataError, "unsupported"):
        run.explain()


def transform(comm: lk.MPI.Comm) -> None:
    """As of a plane-wave code: work that divides evenly, between transposes of all the data."""
    total_bytes, work_s = 2**26, 60.0
    data = bytearray(total_bytes // comm.size)
    for _ in range(2):
        lk.compute(seconds=work_s / 2 / comm.size)
        comm.Alltoall(data, bytearray(len(data)))


@pytest.mark.parametrize(("model", "is_optimist"), [("loggps", True), ("smpi", False)])
def test_it_predicts_perfect_scaling_where_the_switches_are_the_bottleneck(
    model: str, is_optimist: bool
) -> None:
    """The effect of figure 8 of Degomme et al. 2017: delays scale on, flows slow down between cabinets."""
    machine = "fattree:32x4:1x1:1x1,bw=1Gbps,lat=24us,speed=1Gf"
    times = {p: lk.run(transform, p, machine, model=model).makespan_s for p in (8, 32, 64, 128)}
    speedup = {p: 8 * times[8] / time for p, time in times.items()}
    assert speedup[32] > 30  # one cabinet
    if is_optimist:
        assert speedup[64] > 60
        assert speedup[128] > 115
    else:
        assert speedup[64] < 48
        assert speedup[128] < 85
