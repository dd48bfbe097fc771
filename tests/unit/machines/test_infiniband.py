"""InfiniBand's penalties: figures by hand, and the definition against a second reading of it."""

from __future__ import annotations

import itertools
import random

import pytest

from labkit.machines import models, platform
from tests.support.message_program import run_program

BW, LAT = 1.25e9, 1e-6
STAR = "star:8,bw=1.25GBps,lat=1us"
BE, BS, YS = 0.965, 0.925, 1.35


def marks(program: str, **options: object) -> list[list[float]]:
    model = models.get("ib", cross_traffic=False, **options)
    return run_program(program, 8, platform(STAR), model).marks


def test_a_transfer_alone_has_no_penalty() -> None:
    got = marks("0: send 1 0 1000000; mark\n1: recv 0 0 1000000; mark\n")
    assert got[1] == pytest.approx([2 * LAT + 1_000_016 / BW], rel=1e-12)


def test_two_that_leave_run_at_a_window_shrunk_by_twice_bs() -> None:
    """Each gets at most bw / (2 Bs) = 0.54 bw, but the cable gives both together no more than bw."""
    program = (
        "0: isend 0 1 0 1000000; isend 1 2 0 1000000; waitall 0 1\n1: recv 0 0 1000000; mark\n"
        "2: recv 0 0 1000000; mark\n"
    )
    assert marks(program)[1] == pytest.approx([2 * LAT + 2 * 1_000_016 / BW], rel=1e-12)
    narrow = marks(program, penalties=(1.0, 2.0, 1.0))[1]  # penalty 4: half the cable stays unused
    assert narrow == pytest.approx([2 * LAT + 4 * 1_000_016 / BW], rel=1e-12)


def test_ys_counts_once_a_destination_has_three_incoming() -> None:
    """0 sends to 1 and 2; 3 and 4 send to 1 too: every transfer of 0 is slowed by 2 Bs ys."""
    program = (
        "0: isend 0 1 0 1000000; isend 1 2 0 1000000; waitall 0 1\n3: send 1 3 9000000\n4: send 1 4 9000000\n"
        "1: irecv 0 0 0 1000000; irecv 1 3 3 9000000; irecv 2 4 4 9000000; waitall 0 1 2\n"
        "2: recv 0 0 1000000; mark\n"
    )
    got = marks(program, penalties=(0.1, 1.5, 1.25))[2]
    assert got == pytest.approx([2 * LAT + 2 * 1.5 * 1.25 * 1_000_016 / BW], rel=1e-12)


def test_all_that_enter_a_host_are_revised_when_one_of_them_ends() -> None:
    """Three senders, 1, 2 and 3 MB: the cable alone decides, bw / n each, as no penalty is below that share.

    SimGrid 3.32 ends at 7.034 ms: to it the second and third stay slowed by 3 Be to the end.
    """
    program = (
        "0: irecv 0 1 0 1000000; irecv 1 2 0 2000000; irecv 2 3 0 3000000; waitall 0 1 2; mark\n"
        "1: send 0 0 1000000; mark\n2: send 0 0 2000000; mark\n3: send 0 0 3000000; mark\n"
    )
    (last,), (first,), (second,), _ = marks(program)[:4]
    assert first == pytest.approx(2 * LAT + 3 * 1_000_016 / BW, rel=1e-12)
    assert second == pytest.approx(first + 2 * 1_000_000 / BW, rel=1e-12)
    assert last == pytest.approx(second + 1_000_000 / BW, rel=1e-12)
    stale = first + 2 * 1_000_000 / (BW / (3 * BE))
    assert stale == pytest.approx(7.03404e-3, rel=1e-5)


def penalty(flows: list[tuple[int, int]], mine: tuple[int, int]) -> float:
    """The definition, read plainly."""
    source, target = mine
    leaving = [d for s, d in flows if s == source]
    entering = [s for s, d in flows if d == target]
    out = 1.0
    if len(leaving) > 1:
        crowded = [sum(d == one for _, d in flows) > 2 for one in leaving]
        out = max(len(leaving) * BS * (YS if c else 1.0) for c in crowded)
    into = entering.count(source) * BE * len(set(entering)) if len(entering) > 1 else 1.0
    return max(out, into)


def fluid(flows: list[tuple[int, int]], sizes: list[int]) -> list[float]:
    """Transfers that begin together on links too fast to be shared: only penalties slow them."""
    left, ends, now = list(map(float, sizes)), [0.0] * len(sizes), 0.0
    open_ = set(range(len(sizes)))
    while open_:
        present = [flows[i] for i in sorted(open_)]
        rates = {i: BW / penalty(present, flows[i]) for i in open_}
        step = min(left[i] / rates[i] for i in open_)
        now += step
        for i in sorted(open_):
            left[i] -= rates[i] * step
            if left[i] <= 1e-6:
                ends[i] = now
                open_.discard(i)
    return ends


@pytest.mark.parametrize("seed", range(12))
def test_random_loads_follow_the_definition(seed: int) -> None:
    """A fat-pipe star shares nothing, so the penalties alone decide every end."""
    rng = random.Random(seed)
    flows = [tuple(rng.sample(range(6), 2)) for _ in range(rng.randrange(2, 14))]
    sizes = [rng.randrange(100_000, 3_000_000) for _ in flows]
    lines: list[list[str]] = [[] for _ in range(6)]
    waits: list[list[int]] = [[] for _ in range(6)]
    for tag, ((source, target), size) in enumerate(zip(flows, sizes, strict=True)):
        lines[source].append(f"isend {tag} {target} {tag} {size}")
        lines[target].append(f"irecv {tag} {source} {tag} {size}")
        waits[target].append(tag)
    program = "".join(
        f"{r}: {'; '.join([*own, *(f'wait {t}; mark' for t in _by_end(waits[r], flows, sizes))])}\n"
        for r, own in enumerate(lines)
        if own
    )
    spec = "star:6,bw=1.25GBps,lat=0s,sharing=fatpipe"
    model = models.get("ib", cross_traffic=False, envelope_bytes=0)
    got = run_program(program, 6, platform(spec), model).marks
    ends = fluid(flows, sizes)  # type: ignore[arg-type]
    for rank in range(6):
        wanted = [ends[t] for t in _by_end(waits[rank], flows, sizes)]
        assert got[rank] == pytest.approx(list(itertools.accumulate(wanted, max)), rel=1e-9)


def _by_end(tags: list[int], flows: list[tuple[int, ...]], sizes: list[int]) -> list[int]:
    ends = fluid(flows, sizes)  # type: ignore[arg-type]
    return sorted(tags, key=lambda tag: ends[tag])
