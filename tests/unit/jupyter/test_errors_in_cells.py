"""Errors of labkit's functions, as a notebook shows them: a sentence and the user's own lines."""

from __future__ import annotations

import warnings

import pytest

from labkit.errors import RankError, StudyWarning
from labkit.jupyter.failure import failure_lines

SETUP = """import labkit as lk
def ring(comm, n=10):
    if comm.rank == 2:
        return 1 / 0
    comm.Barrier()
def stuck(comm):
    comm.recv(source=(comm.rank + 1) % comm.size)
def fine(comm):
    comm.allreduce(comm.rank)"""


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("lk.run(ring, 8, modell='lab')", "MachineError: a simulated run has no option 'modell', and ring"),
        ("lk.run(ring, 8, on='sttar')", "did you mean 'star'?"),
        ("lk.sweep(fine, ranks=[2, 4]).expect('p^2 logp')", "ExpectationError: expectation 'p^2 logp'"),
        ("lk.judge([1, 2, 3], [1, 2], 'p')", "DataError: x must have shape"),
        ("lk.fit([1, 2], ['a', 'b'])", "DataError"),
        ("lk.plot.heat(3)", "DataError: labkit.plot.heat takes an explanation or a run; got a number (3)"),
        ("lk.plot.gant", "UnknownNameError: labkit.plot has no 'gant'; did you mean 'gantt'?"),
        ("lk.explore.sort", "labkit.explore has no 'sort'; did you mean 'sorting'?"),
        ("lk.run(fine, 4, isolate='x')", "MachineError: isolate is True or False, got 'x'"),
        ("lk.explore.sorting('smaple')", "did you mean 'sample_sort'?"),
        ("lk.rnu", "labkit has no 'rnu'; did you mean 'run'?"),
    ],
)
def test_an_error_is_a_sentence_and_the_line_that_caused_it(notebook, cell, sentence):
    text = notebook.run(SETUP, f"a = 1\n{cell}")
    assert sentence in text
    assert f"Cell In[{notebook.shell.execution_count - 1}], line 2\n" in text
    assert f"---->   2 {cell}" in text
    assert "labkit/" not in text
    assert "Traceback" not in text


def test_a_failing_rank_of_lk_run_is_shown_with_its_line_in_another_cell(notebook):
    text = notebook.run(SETUP, "def mine(n):\n    return lk.run(ring, n)\n", "mine(4)")
    assert "RankError: rank 2 failed: ZeroDivisionError: division by zero" in text
    first = notebook.shell.execution_count - 3
    assert f"Cell In[{first}], line 4, in ring" in text
    assert "---->   4         return 1 / 0" in text
    assert f"Cell In[{first + 1}], line 2, in mine" in text, "the way there is shown too"
    assert f"Cell In[{first + 2}], line 1\n---->   1 mine(4)" in text
    assert "labkit/" not in text


def test_a_deadlock_of_lk_run_names_cells_not_files(notebook):
    text = notebook.run(SETUP, "lk.run(stuck, 3)")
    cell = f"Cell In[{notebook.shell.execution_count - 2}]"
    assert f"rank 1: recv from rank 2, tag any at {cell}:7 in stuck" in text
    assert f"{cell}\n" in text
    assert "---->   7     comm.recv" in text
    assert "ipython-input" not in text


def test_an_error_that_the_user_catches_is_an_ordinary_one(notebook):
    text = notebook.run(SETUP, "try:\n    lk.rnu\nexcept AttributeError as error:\n    print(error)")
    assert text == "labkit has no 'rnu'; did you mean 'run'?\n"


def test_frames_of_mpi4py_whose_code_is_not_there_are_left_out():
    text = (
        'Traceback (most recent call last):\n  File "ring.py", line 2, in ring\n    comm.Send([1, 2], 1)\n'
        '  File "src/mpi4py/MPI.src/Comm.pyx", line 421, in mpi4py.MPI.Comm.Send\n'
        "TypeError: a bytes-like object is required, not 'int'"
    )
    (shown,) = failure_lines(RankError(0, text), "", has_colors=False)
    assert "mpi4py" not in shown
    assert 'File "ring.py", line 2' in shown
    assert shown.count("a bytes-like object is required") == 2  # the sentence, and the end of the traceback


def shown_by(notebook, kind, *cells):
    """Return the warnings of cells, as Python writes them."""
    with pytest.warns(kind) as caught:
        notebook.run(*cells)
    return "".join(warnings.formatwarning(w.message, w.category, w.filename, w.lineno) for w in caught)


def test_a_point_of_a_sweep_that_fails_is_told_with_the_cell(notebook):
    text = shown_by(
        notebook, StudyWarning, SETUP, "a = 1\nstudy = lk.sweep(ring, [1, 2, 3, 4], progress=False)"
    )
    number = notebook.shell.execution_count - 1
    assert text == (
        "StudyWarning: the point ranks=3 and 1 more failed: rank 2 failed: ZeroDivisionError: "
        f"division by zero (Cell In[{number}], line 2)\n"
    )


def test_other_warnings_are_written_as_they_were(notebook):
    text = shown_by(notebook, UserWarning, "import warnings\nwarnings.warn('mine')")
    assert "UserWarning: mine\n" in text
    assert not text.startswith("UserWarning")


@pytest.mark.mpi
def test_a_failed_point_is_told_by_a_whole_sentence(notebook):
    loop = "def loop(comm):\n    while comm.size > 1: pass"
    sweep = "study = lk.sweep(loop, [1, 2], 'mpi', timeout_s=4, repeats=1, progress=False)"
    text = shown_by(notebook, StudyWarning, SETUP, loop, sweep)
    assert "failed: the run did not end within 4 s" in text
    assert "or None no limit (Cell In[" in text
