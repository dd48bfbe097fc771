"""The words behind %%spmd and %spmd: what they choose, and what is refused in one sentence."""

from __future__ import annotations

import pytest

from labkit.errors import MachineError
from tests.support.refusals import raises_code


def lines(text):
    return [line for line in text.splitlines() if line.strip()]


def test_the_session_has_options_of_its_own_and_a_cell_goes_over_them(notebook):
    assert "no options of the session" in notebook.run("%spmd")
    text = notebook.run("%spmd -n 4 --on torus:2x2 --model smpi")
    assert text == "every %%spmd cell from now on: -n 4 --on torus:2x2 --model smpi\n"
    assert "4 ranks on torus:2x2, model smpi" in notebook.run("%%spmd\nrank")
    assert "2 ranks on star, model smpi" in notebook.run("%%spmd -n 2 --on star\nrank")
    assert "--coll allreduce=ring" in notebook.run("%spmd --coll allreduce=ring")
    assert "no options" in notebook.run("%spmd --reset")


def test_what_a_real_machine_does_not_have_rests_while_a_cell_runs_there(notebook, monkeypatch):
    from labkit.real.machines import RealMpi
    from labkit.result import Run

    seen = []

    def run(machine, request):
        seen.append(request)
        return Run("cell", request.ranks, "mpi", results=[(None, {})] * request.ranks)

    monkeypatch.setattr(RealMpi, "run", run)
    notebook.run(
        "%spmd -n 4 --model smpi --coll allreduce=ring --noise jitter=1us --timeout 7 --trace --explain"
    )
    notebook.run("%%spmd --on mpi\nrank")
    assert notebook.error is None
    assert [(request.ranks, request.timeout_s) for request in seen] == [(4, 7.0)]
    assert "belong to simulated runs" in notebook.run("%%spmd --on mpi --model lab\nrank")
    assert isinstance(notebook.error, MachineError)


def test_machines_are_found_by_their_name_in_the_notebook(notebook):
    notebook.run("import labkit as lk\nmachine = lk.platform('torus:2x2')\nword = 'torus:2x2'\nstar = 'x'")
    assert "4 ranks on torus:2x2" in notebook.run("%%spmd -n 4 --on machine --no-crosstraffic\nrank")
    assert "4 ranks on torus:2x2" in notebook.run("%%spmd -n 4 --on {word}\nrank")
    assert "4 ranks on star" in notebook.run("%%spmd -n 4 --on star\nrank")
    assert "write --on {word}" in notebook.run("%%spmd -n 4 --on word\nrank")


def test_options_reach_the_run(notebook):
    text = notebook.run(
        "%%spmd -n 4 --on torus:2x2 --mapping cyclic --seed 3 --trace --explain # and nothing else\n"
        "import random\nwith lk.phase('sum'):\n    comm.allreduce(1)\nrandom.random()"
    )
    run = notebook.names["_spmd"]
    assert run.trace is not None
    assert run.machine["mapping"] == "cyclic"
    assert "Why" in text or "critical path" in text
    first = run.results
    notebook.run("%%spmd -n 4 --on torus:2x2 --seed 3\nimport random\nrandom.random()")
    assert notebook.names["_spmd"].results == first


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "number of ranks is required"),
        ("16", "'16' is not an option here; the number of ranks is -n 16"),
        ('-n 4 ""', "'' is not an option here; an option begins with --"),
        ("-n four", "invalid int value: 'four'"),
        ("-n 0", "ranks must be at least 1, got 0"),
        ("-n 5 --on torus:2x2", "5 ranks do not fit on torus:2x2"),
        ("-n 4 --on tarus:2x2", "did you mean 'torus' or 'star'?"),
        ("-n 4 --model smqi", "smqi"),
        ("-n 4 --timeout soon", "--timeout takes a number of seconds or none, got 'soon'"),
        ("-n 4 --timeout -1", "timeout_s must be more than 0 seconds, got -1.0"),
        ("-n 4 --coll ring", "coll takes COLLECTIVE=ALGORITHM"),
        ("-n 4 --colls ring", "'--colls ring' is not an option here"),
        ("-n 4 -o 1a", "-o takes a name"),
        ("-n 4 -o mpi", "mpi is a machine: write --on mpi"),
        ("-n 4 --machine star", "the machine is --on"),
        ("-n 4 --plot", "lk.plot.gantt(_spmd) draws it"),
        ("-n 4 print(rank)", "below a first line with %%spmd"),
        ("-n 4 'open", "No closing quotation"),
        ("-n 4 --mpi system", "--mpi belongs to --on mpi"),
    ],
)
def test_bad_options_give_one_sentence(notebook, line, sentence):
    text = notebook.run(f"%%spmd {line}\nrank")
    assert notebook.error is not None
    assert not isinstance(notebook.error, SystemExit)
    assert sentence in text
    assert len(lines(text)) == 1
    assert "_spmd" not in notebook.names


@pytest.mark.parametrize(
    "line", ["-n 0", "--on tarus", "-n 9 --on torus:2x2", "--quiet --nothing", "--timeout 0"]
)
def test_bad_options_of_the_session_are_refused_at_once(notebook, line):
    notebook.run("%spmd -n 2")
    assert notebook.run(f"%spmd {line}").startswith("UsageError: ")
    assert notebook.run("%spmd") == "every %%spmd cell from now on: -n 2\n"


def test_help_is_shown_and_the_extension_can_be_unloaded(notebook):
    text = notebook.run("%spmd --help")
    assert "--on MACHINE" in text
    assert "_spmd.values" in text
    assert text in notebook.run("%%spmd --help\nrank")
    notebook.run("%unload_ext labkit")
    assert "not found" in notebook.run("%spmd")
    notebook.run("%load_ext labkit")


def test_without_ipython_there_is_a_sentence():
    import labkit

    with raises_code(MachineError, "missing-package", "IPython"):
        labkit.load_ipython_extension(None)


def test_ipythons_own_names_do_not_travel(notebook):
    notebook.run("mine = 1\nbefore = sorted(get_ipython().user_ns)")
    notebook.run("%%spmd -n 2 -q\n'mine' in globals(), 'In' in globals(), 'get_ipython' in globals()")
    run = notebook.names["_spmd"]
    assert run.results == [(True, False, False)] * 2
    assert run.notes == []
    after = notebook.run("print(set(before) <= set(get_ipython().user_ns), In[-1][:5])")
    assert after == "True print\n"
