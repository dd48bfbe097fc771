"""The command line: what it refuses, its exit codes, and JSON that is alone on stdout."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from labkit import errors
from labkit.cli.main import exit_code, main


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "prog.py"
    path.write_text("raise SystemExit('must not run')\n")
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-n", "0"], "ranks must be at least 1, got 0"),
        (["-n", "2", "--on", "moon"], "'moon' is neither a topology nor a file nor a machine"),
        (["-n", "3", "--on", "star:2"], "3 ranks do not fit on star:2"),
        (["-n", "2", "--model", "warp"], "network model 'warp' is not known"),
        (["-n", "2", "--coll", "allreduce"], "coll takes COLLECTIVE=ALGORITHM"),
        (["-n", "2", "--coll", "allreduce=magic"], "allreduce has no algorithm 'magic'"),
        (["-n", "2", "--timeout", "soon"], "--timeout takes a number of seconds or none"),
        (["-n", "2", "--timeout", "-1"], "timeout_s must be more than 0"),
        (["-n", "2", "--on", "mpi", "--no-crosstraffic"], "--no-crosstraffic belongs to simulated machines"),
        (["-n", "2", "--on", "mpi", "--mpi", "/no/such"], "'/no/such' is not an mpiexec"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_run_refuses_in_one_line(arguments, words, as_json, script, capsys):
    code = main(["run", *arguments, *(["--json"] if as_json else []), script])
    output = capsys.readouterr()
    assert code == 3
    assert words in output.err
    assert output.err.startswith("labkit run: ")
    assert output.err.count("\n") == 1
    if as_json:
        record = json.loads(output.out)
        assert record["exit"] == 3
        assert words in record["error"]["message"]
        assert record["error"]["code"] in errors.CODES
    else:
        assert output.out == ""


def test_missing_script(capsys):
    assert main(["run", "-n", "2", "no/such/prog.py"]) == 3
    assert "the script 'no/such/prog.py' does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["run"], ["run", "-n", "x", "p.py"], ["fly"], [], ["run", "--what"]])
def test_wrong_usage_is_2(arguments, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("version", "use labkit --version"),
        ("help", "use labkit --help"),
        ("hello.py", "use labkit run -n 4 hello.py"),
        ("mpirun -n 4 hello.py", "use labkit run -n 4"),
        ("sweep hello.py", "labkit.sweep(program, [2, 4, 8]) in Python"),
        ("notebook", "use labkit lab"),
        ("machines", "use labkit.explore.topology()"),
        ("grad", "did you mean 'grade'?"),
        ("xyzzy", "there are: run, replay"),
        ("run -n 4 --machine torus hello.py", "did you mean '--on'?"),
        ("run -n 4 --trcae hello.py", "did you mean '--trace'?"),
        ("run -n 2 --mpi hello.py", "--mpi took 'hello.py', real MPI is --on mpi"),
        ("lab --port=9999", "as in labkit lab -- --port=9999"),
        ("lab --refresch", "did you mean '--refresh'?"),
    ],
)
def test_other_names_of_commands_and_options_say_what_was_meant(line, meant, capsys):
    assert main(line.split()) == 2
    assert meant in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["lab", "--help"], ["doctor", "--help"]]
)
def test_help_documents_the_exit_codes(arguments, capsys):
    assert main(arguments) == 0
    assert "exit codes:" in capsys.readouterr().out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("labkit ")


def test_every_kind_of_error_has_its_code():
    assert exit_code(errors.RankError(1, "ValueError: x")) == 1
    assert exit_code(errors.DeadlockError("x")) == 4
    assert exit_code(errors.TimeLimitError("x")) == 5
    for kind in (errors.PlatformError, errors.MachineError, errors.DataError, errors.ProgramError):
        assert exit_code(kind("x")) == 3


def test_debug_shows_where(script, capsys):
    assert main(["run", "--debug", "-n", "0", script]) == 3
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert "check_ranks" in error


def test_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "run", "-n", "2", "no/such.py"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_start_is_light():
    """Help must not import the scientific stack."""
    code = "import sys; from labkit.cli import main; main(['--version']); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


def test_a_simulated_rank_starts_light():
    """What a run may need later (explanations, XML, the web's protocols) is imported then."""
    code = (
        "import sys; import labkit.sim.script_child; "
        "print(*sorted({'http.client', 'ssl', 'pandas', 'labkit.trace.explanation'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_options_behind_the_program_are_explained(script, capsys):
    assert main(["run", script, "-n", "8"]) == 2
    assert f"-n comes after {script}, so it is an argument of {script}" in capsys.readouterr().err
    assert main(["run", script]) == 2
    assert "the number of ranks is missing: write -n RANKS before the program" in capsys.readouterr().err
