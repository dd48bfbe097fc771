"""What a %%spmd cell sees, what comes back, and how it ends; on simulated machines."""

from __future__ import annotations

import numpy as np
import pytest

from labkit.errors import DeadlockError, RankError, TimeLimitError, UnknownNameError
from tests.support.refusals import raises_code

CELL = "%%spmd -n 4 --on torus:2x2\n"


def test_the_last_expression_and_the_names_come_back_by_rank(notebook):
    text = notebook.run(CELL + "double = 2 * rank\nfor i in range(3): pass\ncomm.allreduce(rank)")
    run = notebook.names["_spmd"]
    assert run.results == [6] * 4
    assert run.values == {"double": [0, 2, 4, 6], "i": [2] * 4}
    assert "ranks 0-3 = 6" in text
    assert "4 ranks on torus:2x2" in text
    assert "double" not in notebook.names


def test_the_notebooks_names_are_there_by_value(notebook):
    notebook.run("import math\ndata = [1]\ndef helper(x): return x + rank + len(data)\nrank = 'mine'")
    notebook.run(CELL + "data.append(rank)\ndata = data + [5]\nmath.floor(1.5) + helper(0)")
    assert notebook.names["_spmd"].results == [4, 5, 6, 7]
    assert notebook.names["data"] == [1]
    assert notebook.names["rank"] == "mine"
    assert notebook.names["_spmd"].values["data"] == [[1, rank, 5] for rank in range(4)]


def test_a_name_may_be_read_before_it_is_assigned_as_in_a_script(notebook):
    notebook.run("total = 10", CELL + "global total\ntotal = total + rank\nlater: int = 1")
    assert notebook.names["_spmd"].values == {"total": [10, 11, 12, 13], "later": [1] * 4}


def test_classes_of_a_cell_travel_in_messages_and_are_the_receivers_own(notebook):
    notebook.run(
        CELL + "import dataclasses, enum\n@dataclasses.dataclass\nclass Point:\n    x: 'float' = 0\n"
        "class Color(enum.Enum):\n    RED = 1\n"
        "got, color = comm.sendrecv((Point(rank), Color.RED), (rank + 1) % size, source=(rank - 1) % size)\n"
        "isinstance(got, Point) and color is Color.RED and got.x"
    )
    assert notebook.error is None
    assert notebook.names["_spmd"].results == [3, 0, 1, 2]


def test_what_comes_back_is_data_of_a_sane_size(notebook):
    text = notebook.run(
        CELL + "import numpy as np\ndef f(): pass\nclass A: pass\n_hidden = 1\nbig = np.zeros(3_000_000)\n"
        "small = np.arange(2) + rank\nif rank: only = 7"
    )
    run = notebook.names["_spmd"]
    assert sorted(run.values) == ["only", "small"]
    assert run.values["only"] == [None, 7, 7, 7]
    np.testing.assert_array_equal(run.values["small"][3], [3, 4])
    assert "big did not come back: 24 MB" in text


def test_o_names_the_run_and_q_shows_nothing(notebook):
    assert notebook.run("%%spmd -n 2 -q -o first\nprint(1)\nrank") == ""
    assert notebook.names["first"].results == [0, 1]
    assert notebook.names["first"].output == ["1\n", "1\n"]
    assert "= 0" not in notebook.run("%%spmd -n 2\nrank;")


def test_the_cell_knows_comm_rank_size_mpi_and_labkit(notebook):
    notebook.run(
        CELL + "(comm.size == size, comm.rank == rank, MPI.COMM_WORLD == comm, lk.MPI is MPI, __name__)"
    )
    assert notebook.names["_spmd"].results == [(True, True, True, True, "__main__")] * 4


def test_mpi4py_in_a_cell_is_the_machines_own(notebook):
    notebook.run(
        CELL + "from mpi4py import MPI as M\nworld = M.COMM_WORLD\n(world.Get_rank(), world.Get_size())"
    )
    assert notebook.names["_spmd"].results == [(rank, 4) for rank in range(4)]


def test_display_and_exit_mean_the_ranks_own(notebook):
    text = notebook.run(CELL + "display([rank])\nif rank == 2: exit()\nrank")
    assert "rank 1 | [1]" in text
    assert notebook.names["_spmd"].results == [0, 1, None, 3]


def test_a_failing_rank_is_named_with_the_cells_line(notebook):
    text = notebook.run(CELL + "# nothing\nprint('before')\nif rank == 2:\n    {}['key']\ncomm.Barrier()")
    assert isinstance(notebook.error, RankError)
    assert notebook.error.rank == 2
    assert "RankError: rank 2 failed: KeyError: 'key'" in text
    assert "line 5\n" in text
    assert "---->   5     {}['key']" in text
    assert "| before" in text
    assert "labkit/" not in text
    assert notebook.run(CELL + "rank").count("=") == 4, "the next cell runs"


def test_what_a_failed_cell_had_printed_stays_at_hand(notebook):
    text = notebook.run(
        CELL + "import sys\nprint('err', file=sys.stderr)\nfor i in range(100): print(i)\n1 / (rank - 1)"
    )
    assert "more lines in sys.last_value.output[0]" in text
    assert notebook.run("import sys; print(sys.last_value.output[1][:6])") == "err\n0\n\n"


def test_the_magic_alone_is_answered_though_its_cell_is_empty(notebook):
    assert "-n RANKS" in notebook.run("%%spmd --help")
    assert notebook.run("%%spmd -n 2").startswith("cell: 2 ranks on star")
    assert "is the first line of its cell" in notebook.run("# four ranks\n%%spmd -n 4\nrank")
    notebook.run("%unload_ext labkit")
    assert "not found" in notebook.run("%%spmd --help")


def test_a_deadlock_is_reported_with_the_cells_lines(notebook):
    text = notebook.run(CELL + "if rank == 1:\n    comm.recv(source=0)\nelse:\n    comm.Barrier()")
    assert isinstance(notebook.error, DeadlockError)
    assert "rank 1: recv from rank 0" in text
    assert "---->   3     comm.recv(source=0)" in text
    assert "---->   5     comm.Barrier()" in text


def test_an_endless_cell_ends_with_its_time(notebook):
    text = notebook.run("%%spmd -n 2 --timeout 0.3\nif rank == 0:\n    while True: pass")
    assert isinstance(notebook.error, TimeLimitError)
    assert "---->   3     while True: pass" in text


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("x = 1\n%time y = 2", "line 3 of the cell, '%time y = 2', is IPython's and not Python's"),
        ("!ls", "is IPython's and not Python's"),
        ("await comm", "line 2 of the cell waits for a coroutine"),
        ("for x in [1]:\n    async with comm: pass", "line 3 of the cell waits for a coroutine"),
        ("from math import *", "line 2 of the cell imports * from math"),
        ("get_ipython().run_line_magic('time', '')", "line 2 of the cell asks for get_ipython()"),
        ("if True", 'File "Cell In['),
        ("return 3", "SyntaxError: 'return' outside function"),
        ("yield 3", "SyntaxError: 'yield' outside function"),
        ("x = (1,\n", "SyntaxError"),
        ("a\0b", "null byte"),
    ],
)
def test_what_no_rank_can_run_is_refused(notebook, body, sentence):
    text = notebook.run(CELL + body)
    assert sentence in text
    assert text.startswith("UsageError: ")
    assert "_spmd" not in notebook.names


def test_functions_may_do_what_the_top_level_may_not(notebook):
    notebook.run(
        CELL + "from __future__ import annotations\nasync def waits(x: Unknown): await x\n"
        "def counts():\n    yield from range(3)\ndef sets():\n    global made\n    made = rank\nsets()\n"
        "(sum(counts()), made)"
    )
    assert notebook.error is None
    assert notebook.names["_spmd"].results == [(3, rank) for rank in range(4)]


def test_standard_error_is_marked_and_clean_in_the_run(notebook):
    text = notebook.run(
        CELL + "import sys\nprint('a')\nif rank == 1: print('b', file=sys.stderr)\nprint('c')"
    )
    assert "rank 1       ! b\n" in text
    run = notebook.names["_spmd"]
    assert run.output[1] == "a\nb\nc\n"
    assert "stderr" in run._repr_html_()
    assert "\x0e" not in run._repr_html_() + repr(run)


def test_names_of_the_ranks_are_told_and_found(notebook):
    text = notebook.run(CELL + "x = rank\ny = 2\nx;")
    assert 'by rank _spmd["x"], _spmd["y"]' in text
    assert notebook.run("_spmd['x']").endswith("[0, 1, 2, 3]\n")
    assert 'x lives on the ranks: _spmd["x"] is its value on each of them' in notebook.run("x + 1")
    assert "lives on the ranks" not in notebook.run("z + 1")
    assert "'z' did not come back: the cell's names are x, y" in notebook.run("_spmd['z']")


def test_numbers_of_numpy_are_shown_as_numbers(notebook):
    assert "ranks 0-3 = 3\n" in notebook.run("import numpy as np", CELL + "np.int64(3)")


@pytest.mark.parametrize("cell", ["{}n = int(input('n? '))", "{}def ask():\n    return input()\nask()"])
@pytest.mark.parametrize("machine", ["", " --on mpi"])
def test_input_is_refused_at_once_on_every_machine(notebook, cell, machine):
    text = notebook.run(cell.format(f"%%spmd -n 2{machine}\n"))
    assert "calls input(), and ranks have no keyboard: ask before the run" in text
    assert "ranks 0-1 = 7\n" in notebook.run("%%spmd -n 2\ninput = lambda: 7\ninput()")


def test_a_figure_that_stays_on_a_real_rank_is_told(notebook):
    draws = "import matplotlib.pyplot as plt\ndisplay(plt.figure())"
    assert "draw _spmd[...] of it in a separate cell" in notebook.run(f"%%spmd -n 1 --on mpi\n{draws}")
    assert "_spmd[...]" not in notebook.run("%%spmd -n 1\nprint('Figure(1x1)')")


def test_a_cell_without_names_says_so(notebook):
    notebook.run("%%spmd -n 2\nrank")
    with raises_code(UnknownNameError, "unknown-name", "'x'"):
        notebook.names["_spmd"]["x"]
