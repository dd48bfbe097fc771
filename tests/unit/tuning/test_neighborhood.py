"""Exchanges with neighbors: every form brings the same halos; a request finds the fastest."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError, LabkitError
from labkit.tuning.neighbor_exchange import FORMS
from tests.support.neighbors import edges, halos
from tests.support.refusals import raises_code

GRIDS = [
    ([1], [False], (4, 3), 1), ([2], [False], (5, 3), 1), ([3], [True], (6,), 2), ([5], [False], (7, 2), 2),
    ([2, 2, 2], [False, False, False], (4, 5, 6), 1), ([4, 3], [True, True], (8, 7, 2), 2),
    ([2, 4], [False, True], (3, 3), 1),
]  # fmt: skip
SHORT = [([1], [True], (4, 3), 1), ([2, 3], [True, True], (5, 4), 1)]


@pytest.mark.slow
@pytest.mark.parametrize("grid", GRIDS + SHORT)
def test_every_form_brings_the_halos_of_a_grid(grid):
    forms = [name for name in FORMS if name != "Neighbor_alltoallw"] if grid in SHORT else list(FORMS)
    run = lk.run(halos, int(np.prod(grid[0])), "star", args=grid, forms=forms)
    assert run.results == [[]] * run.ranks


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 7, 8])
def test_every_form_follows_the_edges_of_a_graph(ranks):
    assert lk.run(edges, ranks, "star", forms=list(FORMS)).results == [[]] * ranks


def test_there_are_twenty_forms_and_three_more():
    assert len(FORMS) == 23
    pairs = {frozenset(attributes.items()) for attributes in FORMS.values()}
    assert len(pairs) == 23
    assert sum(name.endswith("_pack") for name in FORMS) == 7


def tuned(comm, search):
    grid = comm.Create_cart([4, 2, 2], periods=True)
    cells = np.zeros((20, 20, 20, 5))
    with lk.tune.neighborhood(grid, cells, search=search, measurements=2) as exchange:
        for _ in range(80):
            exchange()
        return exchange.explain().decisions[0]


@pytest.mark.slow
def test_a_request_finds_the_fastest_form_and_attributes_measure_half():
    run = lk.run(tuned, 16, "torus:4x2x2", search="brute force")
    every = run.results[0]
    assert {one.winner for one in run.results} == {every.winner}
    some = lk.run(tuned, 16, "torus:4x2x2", search="attributes").results[0]
    assert len(every.rows) == 22  # rings of two
    assert any("rings of one or two ranks" in text for text in every.left_out)
    assert some.trials <= every.trials / 2
    times = {row.name: row.estimate_s for row in every.rows}
    assert times[some.winner] <= 1.02 * times[every.winner]
    assert every.what.endswith(" 77.8 kB")  # six faces of 18 x 18 cells of 5 x 8 B
    assert times["Sendrecv_pair"] > times["IsIr_aao"]


def refused(comm, case):
    grid, array = comm.Create_cart([2, 2]), np.zeros((5, 5))
    graph = comm.Create_dist_graph_adjacent([comm.rank], [comm.rank])
    if case == "uneven":
        lk.tune.neighborhood(grid, np.zeros((5 + comm.rank, 5)))
    make = {
        "no topology": lambda: lk.tune.neighborhood(comm, array),
        "no array": lambda: lk.tune.neighborhood(grid),
        "gaps": lambda: lk.tune.neighborhood(grid, np.zeros((10, 10))[::2, ::2]),
        "unlike": lambda: lk.tune.neighborhood(grid, array, np.zeros((5, 6))),
        "small": lambda: lk.tune.neighborhood(grid, array, width=2),
        "width": lambda: lk.tune.neighborhood(grid, array, width=0),
        "flat": lambda: lk.tune.neighborhood(grid, np.zeros(9)),
        "no regions": lambda: lk.tune.neighborhood(graph, array),
        "regions": lambda: lk.tune.neighborhood(graph, array, send=[], recv=[slice(1)]),
        "one end": lambda: lk.tune.neighborhood(graph, array, send=[slice(1)]),
        "stride": lambda: lk.tune.neighborhood(graph, array, send=[slice(0, 4, 2)], recv=[slice(2)]),
        "sizes": lambda: lk.tune.neighborhood(graph, array, send=[slice(1)], recv=[slice(2)]),
        "form": lambda: lk.tune.neighborhood(grid, array, forms=["quick"]),
        "stranger": lambda: lk.tune.neighborhood(grid, array)(array.copy()),
    }
    make[case]()


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        ("no topology", ("wrong-type", "Create_cart")),
        ("no array", ("not-enough-data",)),
        ("gaps", ("not-contiguous",)),
        ("unlike", ("count-mismatch",)),
        ("small", ("not-enough-data", "6")),
        ("width", ("out-of-range", "1")),
        ("flat", ("count-mismatch", "2")),
        ("no regions", ("missing-key", "send=")),
        ("regions", ("count-mismatch", "0")),
        ("one end", ("missing-key",)),
        ("stride", ("wrong-type",)),
        ("sizes", ("too-many-ranks",)),
        ("form", ("unknown-name", "'quick'")),
        ("stranger", ("wrong-arguments",)),
        ("uneven", ("too-many-ranks",)),
    ],
)
def test_what_is_refused(case, wanted: tuple[str, ...]):
    with raises_code(LabkitError, *wanted) as caught:
        lk.run(refused, 4, "star", args=(case,))
    assert isinstance(caught.value.__cause__ or caught.value, LabkitError | DataError)
