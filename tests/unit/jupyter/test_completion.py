"""What Tab offers: the table of contents of labkit, and the words of the magic's line."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import labkit as lk


def offered(notebook, text: str) -> list[str]:
    from IPython.core.completer import provisionalcompleter

    with provisionalcompleter():
        return [one.text for one in notebook.shell.Completer.completions(text, len(text))]


def test_labkit_offers_a_table_of_contents(notebook):
    notebook.run("import labkit as lk")
    found = offered(notebook, "lk.")
    assert len(found) <= 33
    assert {"run", "sweep", "load", "fit", "judge", "explore", "plot", "algorithms", "datasets"} <= {*found}
    assert sorted(found) == described(lk)


def described(module) -> list[str]:
    """Return the names in a module's table of contents: those that a line begins with."""
    found = re.findall(r"^    (\w+(?:, \w+)*)(?:  +\S|$)", module.__doc__, re.MULTILINE)
    return sorted(name for names in found for name in names.split(", "))


def test_help_on_figures_and_explorers_tells_what_each_is():
    assert described(lk.plot) == sorted(dir(lk.plot))
    assert described(lk.explore) == sorted(dir(lk.explore))
    assert all(name in lk.__doc__ for name in dir(lk.explore))


def test_figures_and_explorers_alone_are_offered(notebook):
    notebook.run("import labkit as lk")
    explorers = ["collective", "messages", "model", "schedule", "sorting", "topology", "vary", "waits"]
    assert sorted(offered(notebook, "lk.explore.")) == explorers
    figures = offered(notebook, "lk.plot.")
    assert {"gantt", "phases", "scaling", "speedup", "heat", "sends"} <= {*figures}
    assert all(callable(getattr(lk.plot, name)) and getattr(lk.plot, name).__doc__ for name in figures)
    assert lk.plot.speedup.__wrapped__ is lk.plot.efficiency.__wrapped__


def test_behind_except_the_errors_alone_are_offered(notebook):
    notebook.run("import labkit as lk")
    found = offered(notebook, "lk.errors.")
    assert {"DeadlockError", "RankError", "TimeLimitError", "RunInterrupted"} <= {*found}
    assert all(issubclass(getattr(lk.errors, name), BaseException) for name in found)


def test_inputs_offer_what_a_program_calls(notebook):
    notebook.run("from labkit.datasets import inputs")
    assert sorted(offered(notebook, "inputs.")) == ["INPUTS", "Place", "SIZES", "keys", "sizes", "why"]


@pytest.mark.parametrize(
    ("line", "some", "none"),
    [
        ("%%spmd --on ", ["mpi", "cluster", "slurm", "star", "torus", "graphene", "mine"], "text"),
        ("%spmd --on m", ["mpi", "mine"], "star"),
        ("%%spmd -n 4 --coll all", ["allreduce=", "alltoall="], "bcast="),
        ("%%spmd --coll allreduce=ri", ["allreduce=ring"], "allreduce=swing"),
        ("%%spmd --model ", ["lab", "smpi"], "mpi"),
        ("%%spmd -n 4 --trace --", ["--on", "--coll", "--out"], "--reset"),
        ("%spmd --", ["--reset"], "--out"),
        ("%%spmd -n 4 --compute ", ["charged", "measured"], "--on"),
    ],
)
def test_the_magics_line_offers_machines_models_and_algorithms(notebook, line, some, none):
    notebook.run("import labkit as lk\nmine = lk.graph([(0, 1), (1, 2)])\ntext = 'star:8'")
    found = offered(notebook, line)
    assert {*some} <= {*found}
    assert none not in found
    assert all(one.startswith(line.split(" ")[-1]) for one in found)


def test_machines_are_offered_before_the_first_cell_of_the_magic():
    """In a kernel that has imported labkit and run nothing yet; and no name is offered twice afterwards."""
    program = (
        "import sys\n"
        "from IPython.core.completer import provisionalcompleter\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_cell('import labkit as lk', silent=True)\n"
        "assert 'labkit.jupyter.options' not in sys.modules\n"
        "def offered(text):\n"
        "    with provisionalcompleter():\n"
        "        return [one.text for one in shell.Completer.completions(text, len(text))]\n"
        "print(*offered('%%spmd -n 4 --on '))\n"
        "shell.run_cell('%load_ext labkit', silent=True)\n"
        "print(*offered('%%spmd -n 4 --on '))\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert said.returncode == 0, said.stderr
    before, after = (line.split() for line in said.stdout.splitlines())
    assert before == after == sorted({*before})
    assert {"mpi", "star", "torus", "graphene"} <= {*before}


def test_other_lines_are_left_alone(notebook):
    notebook.run("value = 1")
    assert "value" in offered(notebook, "val")
    notebook.run("%unload_ext labkit")
    assert "star" not in offered(notebook, "%%spmd --on ")
