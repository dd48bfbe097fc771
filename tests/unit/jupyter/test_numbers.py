"""Numbers of NumPy in a notebook: never with their types, wherever they stand; and values as they were."""

from __future__ import annotations

import numpy as np
import pytest

SETUP = """import dataclasses
import numpy as np
import labkit as lk
@dataclasses.dataclass
class Found:
    most: float
def f(comm):
    most = np.float64(0.5)
    print(comm.rank, [most])
    return {"rank": np.int64(comm.rank), "pair": (most, np.bool_(True)), "found": Found(most)}
run = lk.run(f, 2)"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("run.results", "{'rank': 1, 'pair': (0.5, True), 'found': Found(most=0.5)}"),
        ("run.results[1]", "{'rank': 1, 'pair': (0.5, True), 'found': Found(most=0.5)}"),
        ("run.results[1]['rank']", "1"),
        ("run.results[1]['found']", "Found(most=0.5)"),
        ("for one in run.results:\n    print(one['pair'])", "(0.5, True)\n(0.5, True)"),
        ("print(run.printed())", "0 [0.5]\n1 [0.5]"),
        ("[one['rank'] for one in run.results]", "[0, 1]"),
        ("%%spmd -n 2 -q\nx = [np.int64(rank)]\n\n", ""),
        ('_spmd["x"]', "[[0], [1]]"),
        ("%%spmd -n 2\ny = np.int64(rank), 'a'\nprint(y)\ny", "rank 1 = (1, 'a')"),
        ('_spmd.values["y"], _spmd.results', "([(0, 'a'), (1, 'a')], [(0, 'a'), (1, 'a')])"),
    ],
)
def test_no_type_of_a_number_is_shown(notebook, cell, shown):
    cells = [SETUP, '%%spmd -n 2 -q\nx = [np.int64(rank)]\ny = x[0], "a"\ny']
    text = notebook.run(*cells, cell)
    assert shown in text
    assert "np." not in text
    assert type(notebook.names["run"].results[1]["rank"]) is np.int64


@pytest.mark.mpi
def test_real_ranks_print_numbers_as_their_notebook_does(notebook):
    text = notebook.run(SETUP, "print(lk.run(f, 2, 'mpi').printed())")
    assert "1 [0.5]" in text
    text = notebook.run("%%spmd -n 2 --on mpi\nprint([np.int64(rank)])\n[np.int64(rank)]")
    assert "rank 1 | [1]" in text
    assert "rank 1 = [1]" in text


def test_what_the_user_has_chosen_stays(notebook):
    notebook.run("import numpy as np\nnp.set_printoptions(legacy='1.21')", "%reload_ext labkit")
    assert np.get_printoptions()["legacy"] == "1.21"
    notebook.run("np.set_printoptions(legacy=False)")


def test_unloading_brings_the_types_back(notebook):
    assert np.get_printoptions()["legacy"] == "1.25"
    notebook.run("%unload_ext labkit")
    assert np.get_printoptions()["legacy"] is False
