"""A child that is a fork of the command's process: what it holds, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

CODE = """
import json, os, signal, subprocess, sys, tempfile, time
from labkit.process import child

child.may_fork = True
kept, other = os.pipe()
inherited, end = os.pipe()

def tell():
    found = {
        "session": os.getsid(0) == os.getpid(), "own": os.environ.get("OWN"), "path": os.environ.get("PATH"),
        "input": sys.stdin.read(), "is_fork": "marked" in globals(), "open": [],
    }
    for number in (kept, other, inherited):
        try:
            os.fstat(number)
            found["open"].append(number == inherited)
        except OSError:
            pass
    with open(sys.argv[1], "w") as file:
        json.dump(found, file)

marked = True
with tempfile.TemporaryFile("w+") as text:
    text.write("given")
    text.seek(0)
    with child.ChildProcess(["false"], target=tell, environment={"OWN": "1"}, pass_fds=(inherited,),
                            stdin=text.fileno()) as one:
        assert one.wait(None) and one.code == 0
with child.ChildProcess(["false"], target=lambda: time.sleep(60)) as one:
    assert not one.wait(0.05) and one.code is None
assert one.code == -signal.SIGKILL or one.code == -signal.SIGTERM, one.code
with child.ChildProcess(["false"], target=lambda: 1 / 0) as one:
    assert one.wait(10) and one.code == 1
with child.ChildProcess(["false"], target=lambda: os.kill(os.getpid(), signal.SIGSEGV)) as one:
    assert one.wait(10) and one.code == -signal.SIGSEGV
"""


def test_what_a_fork_holds_and_how_it_ends(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(found)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert json.loads(found.read_text()) == {
        "session": True, "own": "1", "path": None, "input": "given", "is_fork": True, "open": [True],
    }  # fmt: skip


def test_the_command_runs_a_script_in_a_fork_of_its_own_process(tmp_path: Path) -> None:
    script = tmp_path / "who.py"
    script.write_text(
        textwrap.dedent("""
        import os
        from mpi4py import MPI
        with open(f"/proc/{os.getppid()}/cmdline") as parent, open("/proc/self/cmdline") as own:
            print(parent.read() == own.read())
    """)
    )
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "run", "-n", "2", "--on", "star:2", str(script)],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONSAFEPATH": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split().count("True") == 2
