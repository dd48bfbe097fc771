"""A synthesized collective in time: every message is a bar, no more, and the words agree with the plan."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit import plot
from labkit.errors import DataError
from labkit.plot.plan_figure import MOST_LANES
from tests.support.refusals import raises_code

RING = lk.graph([(i, (i + 1) % 4) for i in range(4)], range(4), bw="10Gbps", lat="1us", name="ring")


def bars(figure: plot.Figure) -> list[dict]:
    return [r.data_source.data for r in figure.layout.renderers if type(r.glyph).__name__ == "HBar"]


@pytest.mark.parametrize("operation", ["allgather", "bcast", "alltoall", "allreduce", "reduce_scatter_block"])
def test_every_message_is_a_bar(operation):
    made = lk.synthesize(operation, on=RING, n_bytes=10_000)
    figure = made.plot()
    drawn = [
        (begin, end, lane)
        for bar in bars(figure)
        for begin, end, lane in zip(bar["begin"], bar["end"], bar["lane"], strict=True)
    ]
    planned = [(one.begin_s, one.end_s, f"{one.source} → {one.destination}") for one in made.plan.transfers]
    assert sorted(drawn) == sorted(planned)
    assert figure.layout.y_range.factors[0] == max({lane for *_, lane in planned}), "rank 0 is on top"
    assert ("Hatched" in figure.reading) == any(one.is_combined for one in made.plan.transfers)
    assert f"{len(planned):,} messages" in figure.reading
    assert figure.reading in figure.alt


def test_what_is_under_way_at_once_counts_once():
    made = lk.synthesize("allgather", on=RING, n_bytes=1000)
    busiest = made.plot().reading.partition("longest, ")[2]
    assert 0 < float(busiest.partition("%")[0]) <= 100


def test_of_many_pairs_the_busiest_are_drawn():
    made = lk.synthesize("alltoall", on="star:9", n_bytes=1000)
    figure = plot.plan(made)
    assert len(figure.layout.y_range.factors) == MOST_LANES < 72
    assert f"Shown are the {MOST_LANES} busiest pairs." in figure.reading


def test_of_one_rank_there_is_nothing_to_draw():
    with raises_code(DataError, "no-data"):
        lk.synthesize("allgather", on="star:1", n_bytes=8).plot()
