"""Cost cards: what they say is held against formulas, bounds and planted times."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import labkit as lk
from labkit.errors import DataError, PlatformError
from labkit.machines import platform
from labkit.models import LogGP
from labkit.tuning.cards import COLUMNS, Card
from tests.support.refusals import raises_code

TREES = ["binomial", "linear", "chain"]


def planted(rows, machine="star:4"):
    """Return a card of (bytes, algorithm, simulated_s), all else known."""
    data = [(4, n, name, 1.0, 1.0, s, s, s, np.nan, 0.5) for n, name, s in rows]
    net = LogGP(latency_s=1e-6, overhead_s=1e-6)
    return Card("bcast", platform(machine), "raw", 1e-6, 1e-9, net, pd.DataFrame(data, columns=COLUMNS))


def test_a_formula_is_the_simulation_where_no_link_is_shared():
    found = lk.card("bcast", "star:8,model=raw", bytes=[8, 10**6], algorithms=["binomial"])
    rows = found.data
    assert rows["formula_s"].to_numpy() == pytest.approx(rows["simulated_s"].to_numpy(), rel=0.01)
    assert (rows["simulated_s"] >= rows["bound_s"] * (1 - 1e-9)).all()


def test_loggp_is_that_of_the_machine_and_of_its_trees():
    net = LogGP(latency_s=5e-6, overhead_s=2e-6, gap_s=3e-6, gap_per_byte_s=1e-9)
    found = lk.card(
        "bcast", "torus:2x2x2", bytes=1000, p=8, algorithms=["binomial"],
        model=_loggps(net),
    )  # fmt: skip
    assert found.loggp.latency_s == pytest.approx(5e-6, rel=1e-3)
    assert found.data["loggp_s"].iloc[0] == pytest.approx(net.binomial_bcast_s(8, 1000), rel=0.02)
    assert found.data["simulated_s"].iloc[0] == pytest.approx(found.data["loggp_s"].iloc[0], rel=0.02)


def _loggps(net):
    from labkit.machines import models

    return models.get("loggps", **net.options())


def test_winners_keep_as_long_as_nobody_is_faster():
    card = planted([
        (1, "ring", 1.0), (1, "bruck", 1.0), (2, "ring", 2.0), (2, "bruck", 2.0), (2, "tree", 2.0),
        (4, "ring", 9.0), (4, "bruck", 4.0), (8, "tree:node=2", 5.0), (8, "tree", 5.0), (8, "bruck", 6.0),
    ])  # fmt: skip
    assert card.winners.to_numpy().tolist() == [[1, 4, "bruck"], [8, 8, "tree"]]
    assert card.reading.startswith(
        "bcast on star:4, 4 ranks: simulated, none of 4 is faster than bruck at 1 B to 4 B; tree at 8 B. "
        "Crossover between 4 B and 8 B. The fastest takes 2 to 10 times the lower bound."
    )
    for at, rows in card.data.groupby("bytes"):
        best = card.best.set_index("bytes").loc[at, "simulated_s"]
        assert best == rows["simulated_s"].min()


def test_over_the_ranks_only_legal_algorithms_have_rows():
    found = lk.card("barrier", "star:6", p=[3, 4, 6], algorithms=["two_process", "linear", "dissemination"])
    assert set(found.data["algorithm"]) == {"linear", "dissemination"}
    assert (found.axis, found.data["bytes"].max()) == ("ranks", 0)
    assert "3 ranks" in found.reading
    found = lk.card("allgather", "star:6", p=[3, 4], bytes=100, algorithms=["neighbor_exchange"])
    assert found.data["ranks"].tolist() == [4]


def test_measurements_stand_beside_the_algorithms():
    table = pd.DataFrame({
        "ranks": [4, 4, 4, 9], "bytes": [8, 8, 64, 8], "time_s": [1.0, 3.0, 5.0, 7.0],
        "algorithm": ["binomial", "binomial", "library", "library"],
    })  # fmt: skip
    found = lk.card("bcast", "star:4", bytes=[8, 64], algorithms=TREES, measured=table)
    own = found.data.dropna(subset="measured_s")
    assert own[["bytes", "algorithm", "measured_s"]].to_numpy().tolist() == [
        [8, "binomial", 2.0], [64, "library", 5.0],
    ]  # fmt: skip
    assert (own["bound_s"] > 0).all()
    assert "library 5 s" in str(found)
    assert "library" not in found.reading


def test_a_traced_run_and_a_study_are_measurements():
    def program(comm, n_bytes):
        buffer = np.zeros(n_bytes, np.uint8)
        lk.compute(seconds=1e-3 * comm.rank)
        with lk.phase("bcast"):
            comm.Bcast(buffer)

    run = lk.run(program, 4, "star:4", n_bytes=64, trace=True, coll={"bcast": "binomial"})
    found = lk.card("bcast", "star:4", p=4, bytes=64, algorithms=["binomial"], measured=run)
    times = found.data.set_index("algorithm")
    assert 0 < times.loc["library", "measured_s"] <= times.loc["binomial", "simulated_s"] * 1.01
    study = lk.sweep(program, [2, 4], "star:4", n_bytes=[64], progress=False)
    found = lk.card("bcast", "star:4", p=[2, 4], bytes=64, algorithms=["binomial"], measured=study)
    assert found.data["measured_s"].notna().sum() == 2
    with raises_code(DataError, "not-recorded", "trace=True"):
        lk.card("bcast", "star:4", p=2, bytes=64, measured=lk.run(program, 2, "star:4", n_bytes=1))


def test_it_shows_itself():
    table = pd.DataFrame({"ranks": [4], "bytes": [64], "time_s": [1e-3]})
    card = lk.card("bcast", "star:4", bytes=[8, 64, 10**6], algorithms=TREES, measured=table)
    html = card._repr_html_()
    assert "bcast on star:4, 4 ranks" in html
    assert "lower bound" in html
    figure = card.plot()
    assert figure.reading == card.reading
    assert "1 MB" in figure.alt
    labels = [item.label.value for item in figure.layout.select({"type": _legend_item()})]
    assert {"formula", "LogGP", "lower bound", "measured"} <= set(labels)
    assert set(card.winners["algorithm"]) <= set(labels)
    over_ranks = planted([(0, "ring", 1.0)])
    with raises_code(DataError, "no-data"):
        over_ranks.plot()


def _legend_item():
    from bokeh.models import LegendItem

    return LegendItem


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"operation": "allredcue"}, ("unknown-name",)),
        ({"operation": "sorting"}, ("unknown-name",)),
        ({"p": [2, 4], "bytes": [8, 16]}, ("ambiguous",)),
        ({"p": 0}, ("out-of-range",)),
        ({"bytes": [1.5]}, ("out-of-range", "bytes")),
        ({"bytes": []}, ("out-of-range", "bytes")),
        ({"operation": "barrier", "bytes": 8}, ("conflicting-options",)),
        ({"measured": 3}, ("wrong-type", "measured")),
        ({"measured": pd.DataFrame({"ranks": [1]})}, ("missing-key", "'bytes'")),
        ({"measured": pd.DataFrame({"ranks": [3], "bytes": [1], "time_s": [1]})}, ("no-data",)),
    ],
)
def test_what_makes_no_card_is_refused(arguments, wanted: tuple[str, ...]):
    with raises_code(DataError, *wanted):
        lk.card(**{"operation": "bcast", "on": "star:4", **arguments})
    with pytest.raises(PlatformError):
        lk.card("bcast", "star:4", p=5)
