"""Graph algorithms against SciPy's serial ones, on graphs of both extremes and on odd ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array, csgraph

import labkit as lk
from labkit import registry
from labkit.datasets import graphs
from labkit.datasets.matrices import offsets
from labkit.errors import DataError, RankError
from tests.support.refusals import raises_code

ODD = {
    "one vertex": (1, []),
    "no edges": (5, []),
    "a loop": (3, [[1, 1], [0, 2]]),
    "repeated edges": (4, [[0, 1], [1, 0], [0, 1], [2, 1]]),
    "two parts": (7, [[0, 1], [1, 2], [3, 4], [5, 6], [6, 3]]),
    "a chain": (23, [[i, i + 1] for i in range(22)]),
    "a star": (19, [[9, i] for i in range(19) if i != 9]),
}
KINDS = ["rmat", "grid", *ODD]


def graph(kind: str, rank: int = 0, ranks: int = 1) -> tuple[int, Any]:
    """Number of vertices and this rank's edges."""
    if kind == "rmat":
        return 64, graphs.rmat(6, rank, ranks, degree=4, seed=3)
    if kind == "grid":
        return 35, graphs.grid(5, 7, rank, ranks)
    n, edges = ODD[kind]
    share = offsets(len(edges), ranks)
    return n, np.array(edges, np.int64).reshape(-1, 2)[share[rank] : share[rank + 1]]


def matrix(kind: str) -> Any:
    """The graph as SciPy wants it: the lightest of repeated edges, no loops."""
    n, edges = graph(kind)
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    return coo_array((graphs.weights(edges, most=9).astype(float), tuple(edges.T)), shape=(n, n)).tocsr()


def solve(comm: Any, kinds: list[str]) -> list[Any]:
    """This rank's part of every problem on every graph."""
    found = []
    for kind in kinds:
        n, edges = graph(kind, comm.rank, comm.size)
        root, weights = n // 2, graphs.weights(edges, most=9)
        solved = {
            name: registry.get("graphs", name).function(comm, n, edges, root) for name in ("bfs_1d", "bfs_2d")
        }
        sssp = registry.get("graphs", "delta_stepping").function
        solved |= {delta: sssp(comm, n, edges, weights, root, delta) for delta in (1, 4, 1000)}
        solved["boruvka"] = registry.get("graphs", "boruvka").function(comm, n, edges, weights)
        found.append(solved)
    return found


def joined(results: list[Any], number: int, name: Any, part: int | None = None) -> Any:
    blocks = [found[number][name] if part is None else found[number][name][part] for found in results]
    return np.concatenate(blocks)


def require_right(results: list[Any], kinds: list[str]) -> None:
    for number, kind in enumerate(kinds):
        whole = matrix(kind)
        n, root = whole.shape[0], whole.shape[0] // 2
        hops = csgraph.shortest_path(whole, directed=False, unweighted=True, indices=root)
        for name in ("bfs_1d", "bfs_2d"):
            levels, parents = (joined(results, number, name, part) for part in range(2))
            assert np.array_equal(np.where(levels < 0, np.inf, levels), hops), (kind, name)
            require_parents(levels, parents, whole, root)
        lengths = csgraph.shortest_path(whole, directed=False, indices=root)
        for delta in (1, 4, 1000):
            distances = joined(results, number, delta)
            is_far = distances == np.iinfo(np.int64).max
            assert np.array_equal(np.where(is_far, np.inf, distances), lengths), (kind, delta)
        forest, labels = (joined(results, number, "boruvka", part) for part in range(2))
        parts, wanted = csgraph.connected_components(whole, directed=False)
        assert len(forest) == n - parts
        assert forest[:, 2].sum() == csgraph.minimum_spanning_tree(whole).sum()
        assert (
            len({*zip(labels.tolist(), wanted.tolist(), strict=True)}) == parts == len(set(labels.tolist()))
        )
        tree = coo_array((np.ones(len(forest)), tuple(forest[:, :2].T)), shape=(n, n))
        assert csgraph.connected_components(tree, directed=False)[0] == parts


def require_parents(levels: Any, parents: Any, whole: Any, root: int) -> None:
    """A parent is the smallest neighbor of the level before."""
    either = (whole + whole.T).tocsr()
    assert parents[root] == root
    for vertex in range(len(levels)):
        if levels[vertex] > 0:
            neighbors = either.indices[either.indptr[vertex] : either.indptr[vertex + 1]]
            before = neighbors[levels[neighbors] == levels[vertex] - 1]
            assert parents[vertex] == before.min()
        elif vertex != root:
            assert levels[vertex] == parents[vertex] == -1


@pytest.mark.parametrize("ranks", range(1, 18))
def test_graphs_are_solved_as_by_scipy(ranks: int) -> None:
    kinds = KINDS if ranks < 7 else KINDS[: 2 + ranks % 3]
    require_right(lk.run(solve, ranks, "star", args=(kinds,)).results, kinds)


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", range(1, 6))
def test_graphs_are_solved_on_real_mpi(ranks: int) -> None:
    require_right(lk.run(solve, ranks, "mpi", args=(KINDS,)).results, KINDS)


@pytest.mark.parametrize("ranks", [2, 3, 16])
def test_the_graph_does_not_depend_on_the_ranks(ranks: int) -> None:
    for kind in ("rmat", "grid"):
        shares = [graph(kind, rank, ranks)[1] for rank in range(ranks)]
        assert np.array_equal(np.concatenate(shares), graph(kind)[1])


def test_vertices_of_rmat_are_renamed_one_to_one() -> None:
    for scale in (1, 2, 5, 10):
        everything = np.arange(1 << scale)
        assert np.array_equal(np.sort(graphs._permuted(everything, scale, 7)), everything)


def test_rmat_is_uneven_and_shallow_and_a_grid_is_neither() -> None:
    edges = graphs.rmat(12, 0, 1, seed=1)
    degrees = np.sort(np.bincount(edges.ravel(), minlength=1 << 12))[::-1]
    assert degrees[:41].sum() > 0.15 * degrees.sum()  # one in a hundred of the vertices
    assert np.bincount(graphs.grid(64, 64, 0, 1).ravel()).max() == 4


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("bfs_1d", (3, np.array([[0, 3]]), 0), ("out-of-range", "vertices", "0", "2", "3")),
        ("bfs_2d", (3, np.array([0, 1]), 0), ("wrong-type", "edges", "2")),
        ("bfs_2d", (3, np.array([[0, 1]]), 3), ("out-of-range", "root", "0", "2", "3")),
        ("delta_stepping", (3, np.array([[0, 1]]), np.array([0]), 0, 1), ("out-of-range", "1")),
        ("delta_stepping", (3, np.array([[0, 1]]), np.array([1]), 0, 0), ("out-of-range", "delta", "1", "0")),
        ("boruvka", (3, np.array([[0, 1]]), np.array([1, 2])), ("wrong-type", "weights", "1")),
    ],
)
def test_what_is_no_graph_is_refused(name: str, given: Any, wanted: tuple[str, ...]) -> None:
    def program(comm: Any) -> None:
        registry.get("graphs", name).function(comm, *given)

    with raises_code((DataError, RankError), *wanted):
        lk.run(program, 1, "star")


def test_a_grid_of_ranks_has_fewer_partners() -> None:
    def program(comm: Any, name: str) -> None:
        edges = graphs.rmat(9, comm.rank, comm.size)
        registry.get("graphs", name).function(comm, 1 << 9, edges, 1)

    def messages(name: str, phases: set[str]) -> float:
        counts = lk.run(program, 64, "star", args=(name,), count=True).counts
        return float(counts[counts["phase"].isin(phases)].groupby("rank")["messages"].sum().max())

    assert messages("bfs_2d", {"expand", "fold"}) < messages("bfs_1d", {"exchange"}) / 2
