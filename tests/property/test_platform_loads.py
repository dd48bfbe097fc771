"""Random machines under random loads: laws that hold whatever the numbers are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labkit.machines import models
from labkit.machines.platform import Platform
from labkit.machines.spec import parse_spec
from labkit.machines.topologies.star import StarSpec
from tests.support.message_program import Outcome, run_program

SIZES = st.sampled_from([0, 1, 100, 5000, 65_535, 65_536, 300_000])
RATES = st.sampled_from([1e8, 1.25e9, 5e9]) | st.floats(1e6, 1e11)
LATENCIES = st.sampled_from([0.0, 1e-6, 2.4e-5]) | st.floats(1e-9, 1e-2)


@dataclass(frozen=True)
class Load:
    """Messages (source, destination, bytes), and when each rank begins, in ns."""

    ranks: int
    messages: tuple[tuple[int, int, int], ...]
    starts_ns: tuple[int, ...]

    def program(self, names: list[int] | None = None, scale: int = 1) -> str:
        """Everybody posts all receives, then all sends, and waits; rank r is called names[r]."""
        names = names or list(range(self.ranks))
        ops: list[list[str]] = [[f"sleep {scale * start}"] for start in self.starts_ns]
        for tag, (src, dst, size) in enumerate(self.messages):
            ops[dst].append(f"irecv {tag} {names[src]} {tag} {size}")
        for tag, (src, dst, size) in enumerate(self.messages):
            ops[src].append(f"isend {tag} {names[dst]} {tag} {size}")
        for rank, own in enumerate(ops):
            slots = [tag for tag, m in enumerate(self.messages) if rank in m[:2]]
            own.append(f"waitall {' '.join(map(str, slots))}; mark")
        return "".join(f"{names[r]}: {'; '.join(own)}\n" for r, own in enumerate(ops))


@st.composite
def loads(draw: st.DrawFn) -> Load:
    ranks = draw(st.integers(2, 9))
    # The slots of one message are one number at both ends, so nobody writes to itself here.
    pair = st.tuples(st.integers(0, ranks - 1), st.integers(1, ranks - 1), SIZES)
    messages = [(src, (src + step) % ranks, size) for src, step, size in draw(st.lists(pair, max_size=25))]
    starts = draw(st.lists(st.integers(0, 200_000), min_size=ranks, max_size=ranks))
    if draw(st.booleans()):
        starts = [0] * ranks
    return Load(ranks, tuple(messages), tuple(starts))


@st.composite
def stars(draw: st.DrawFn) -> StarSpec:
    has_backbone, has_loopback = draw(st.booleans()), draw(st.booleans())
    return StarSpec(
        hosts=9,
        bw=draw(RATES),
        lat=draw(LATENCIES),
        cores=draw(st.sampled_from([1, 1, 2, 9])),
        sharing=draw(st.sampled_from(["splitduplex", "shared"])),
        bb_bw=draw(RATES) if has_backbone else None,
        bb_lat=draw(LATENCIES) if has_backbone else None,
        bb_sharing=draw(st.sampled_from(["shared", "fatpipe"])) if has_backbone else None,
        limiter=draw(st.none() | RATES),
        loopback_bw=draw(RATES) if has_loopback else None,
        loopback_lat=draw(LATENCIES) if has_loopback else None,
    )


MODELS = st.sampled_from(["raw", "cm02", "lv08", "smpi", "lab"])


def run(load: Load, star: StarSpec, model: str | models.NetworkModel, **how: object) -> Outcome:
    return run_program(load.program(**how), load.ranks, Platform(star), model, keep_messages=True)  # type: ignore[arg-type]


def ends(outcome: Outcome) -> np.ndarray:
    return np.array([marks[-1] for marks in outcome.marks])


@given(loads(), stars(), MODELS)
@settings(max_examples=60, deadline=None)
def test_every_message_arrives_and_none_is_faster_than_its_links(
    load: Load, star: StarSpec, model: str
) -> None:
    got = run(load, star, model)
    assert got.messages == len(load.messages)
    assert got.bytes == sum(size for *_, size in load.messages)
    network = models.get(model)
    best = max((factor for _, factor in network.bandwidth_factor), default=1.0)
    widest = max(star.bw, star.loopback_bw or 0.0) * best
    for *_, size, sent, received, start, end in got.records:
        assert start >= sent
        assert start >= received
        # A part in 1e9 for the rounding of times far larger than the transfer.
        assert end - start >= (size + 16) / widest - 1e-9 * end


@given(loads(), stars(), MODELS)
@settings(max_examples=30, deadline=None)
def test_the_same_run_gives_the_same_bits(load: Load, star: StarSpec, model: str) -> None:
    first, second = run(load, star, model), run(load, star, model)
    assert first.marks == second.marks
    assert first.records == second.records


def faster(star: StarSpec) -> StarSpec:
    """Every rate twice, every latency half."""
    rates = {n: getattr(star, n) for n in ("bw", "bb_bw", "limiter", "loopback_bw")}
    delays = {n: getattr(star, n) for n in ("lat", "bb_lat", "loopback_lat")}
    return replace(
        star,
        **{n: 2 * v for n, v in rates.items() if v is not None},
        **{n: v / 2 for n, v in delays.items() if v is not None},
    )


#: two messages that end together and leave the pair's flow empty, before the third one's bytes begin
TWO_THEN_ONE = Load(2, ((0, 1, 1), (0, 1, 1), (0, 1, 65_535)), (0, 0))
SLOW_LOOPBACK = StarSpec(hosts=9, bw=1e8, lat=0.0, cores=2, loopback_bw=1.25e9, loopback_lat=2.0**-7)


@given(loads(), stars(), st.sampled_from(["raw", "cm02", "lv08", "smpi"]))
@example(TWO_THEN_ONE, SLOW_LOOPBACK, "smpi")
@settings(max_examples=60, deadline=None)
def test_a_machine_twice_as_fast_takes_half_the_time_to_the_last_bit(
    load: Load, star: StarSpec, model: str
) -> None:
    """No absolute tolerance hides in the engine: doubling all rates halves all times exactly."""
    slow = run(load, star, model, scale=2)
    fast = run(load, faster(star), model)
    assert [t / 2 for marks in slow.marks for t in marks] == [t for marks in fast.marks for t in marks]


@given(loads(), stars(), MODELS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_hosts_of_a_star_are_all_alike(load: Load, star: StarSpec, model: str, rng: object) -> None:
    star = replace(star, cores=1)
    names = list(range(load.ranks))
    rng.shuffle(names)  # type: ignore[attr-defined]
    plain, renamed = ends(run(load, star, model)), ends(run(load, star, model, names=names))
    np.testing.assert_allclose(renamed[names], plain, rtol=1e-9)


@given(loads(), stars())
@settings(max_examples=40, deadline=None)
def test_one_rank_alone_on_the_network_needs_latency_and_bandwidth(load: Load, star: StarSpec) -> None:
    """A single message under raw: the sum of the latencies, and the size over the narrowest link."""
    if not load.messages:
        return
    star = replace(star, cores=1)
    src, dst, size = load.messages[0]
    got = run_program(
        f"{src}: send {dst} 0 {size}\n{dst}: recv {src} 0 {size}; mark", 9, Platform(star), "raw"
    )
    narrowest = min(rate for rate in (star.bw, star.bb_bw, star.limiter) if rate is not None)
    # One link for both directions is crossed twice, on the two hosts' sides.
    expected = 2 * star.lat + (star.bb_lat or 0.0) + (size + 16) / narrowest
    np.testing.assert_allclose(got.marks[dst], [expected], rtol=1e-12)


@given(stars())
def test_a_specification_reads_back_as_what_it_was(star: StarSpec) -> None:
    assert parse_spec(str(star)) == star
