"""What would end or fill the grader, or its sandbox, is that submission's own failure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labkit.errors import DataError, MachineError
from labkit.grading import Assignment, Case, Correct
from labkit.grading.bench import OpenBench
from labkit.grading.sandbox import Limits, Sandbox
from labkit.grading.sandbox.imports import imported_by, load_modules
from labkit.grading.seeds import Seed
from labkit.grading.submission import read_submission
from labkit.grading.trial import Trial
from tests.support.course import ASSIGNMENTS
from tests.support.refusals import raises_code

LIMITS = Limits(cpu_s=2, wall_s=60, memory_bytes=64 << 20)


def test_buffers_of_open_receives_are_counted(sandbox: Sandbox) -> None:
    source = "def f(comm):\n    for tag in range(100):\n        comm.irecv(1 << 20, 0, tag)\n"
    outcome = sandbox.run(source, "f", 1, [()])
    assert outcome.kind == "budget", outcome.message
    assert "more than 64 MiB" in outcome.message


def test_buffers_of_receives_that_are_over_are_not_counted(sandbox: Sandbox) -> None:
    source = "def f(comm):\n    for tag in range(100):\n        request = comm.irecv(1 << 20, 0, tag)\n"
    source += "        comm.send(tag, 0, tag)\n        found = request.wait()\n    return found\n"
    outcome = sandbox.run(source, "f", 1, [()])
    assert (outcome.kind, outcome.results) == ("finished", [99]), outcome.message


def test_a_module_that_is_a_program_is_not_loaded_for_all_ranks(sandbox: Sandbox) -> None:
    assert imported_by("import unittest.__main__, json.tool") == ["json.tool"]
    load_modules(["unittest.__main__"])
    outcome = sandbox.run("import unittest.__main__\ndef f(comm):\n    return 1\n", "f", 2, [()] * 2)
    assert outcome.kind in ("error", "ended"), outcome.message
    assert sandbox.run("def f(comm):\n    return 1\n", "f", 2, [()] * 2).is_finished


@pytest.mark.parametrize("phase", [np.zeros(3), np.zeros(0), [], None, 1.5, {"before": 1}])
def test_an_explanation_that_is_no_text_is_wrong(phase: object) -> None:
    check = ASSIGNMENTS["scaling_bug"].check_named("explained")
    found = ASSIGNMENTS["scaling_bug"].try_out(lambda ranks, buckets: (phase, "p", 8), only=[check.name])
    assert found.results[0].points == 0
    assert "at fault" in found.results[0].feedback


@pytest.mark.parametrize(
    "growth",
    ["p^9e9999999999999999999", "p^-9e99999999999999999999", "log^9e99999999999999999 p", "p^" + "9" * 37],
)
def test_a_growth_that_no_number_holds_is_wrong(growth: str) -> None:
    assignment = ASSIGNMENTS["scaling_bug"]
    found = assignment.try_out(lambda ranks, buckets: ("before", growth, 8), only=["explained"])
    assert found.results[0].points == 0
    assert growth in found.results[0].feedback
    found = assignment.try_out(lambda ranks, buckets: ("before", "p", 9**9999), only=["explained"])
    assert found.results[0].points == 0


def test_whatever_is_raised_on_a_results_value_is_a_wrong_answer() -> None:
    def strict(case: Case, results: list[Any]) -> str | None:
        return None if sum(results) == 1 else "wrong"

    one = Case(1, [()], "nothing")
    base = {"title": "", "statement": "", "function": "f"}
    checks = [Correct("sum", "Sum", 1.0, lambda seed: [one], strict)]
    assignment = Assignment(name="own", checks=checks, **base)  # type: ignore[arg-type]
    assert assignment.try_out(lambda comm: 1).points == 1
    for value in ("x", None, 1e400, [10**5000], {"a": 9**9999}):
        assert not assignment.try_out(lambda comm, value=value: value).points
    assert "TypeError" in assignment.try_out(lambda comm: "x").results[0].feedback
    needy = Case(1, [()], "nothing", needs=lambda case, results: [results[0].nbytes])
    check = Correct("needy", "Needy", 1.0, lambda seed: [needy], lambda case, results: None)
    assert not replace(assignment, checks=[check]).try_out(lambda comm: 3).points

    def no_machine(case: Case, results: list[Any]) -> str | None:
        raise MachineError("no memory for the judge")

    with pytest.raises(MachineError):
        replace(assignment, checks=[replace(check, oracle=no_machine)]).try_out(lambda comm: 3)


def test_a_program_has_no_words_of_the_sandbox_and_an_output_as_python_has(sandbox: Sandbox) -> None:
    source = """
import argparse, sys
sys.stdout.reconfigure(line_buffering=True)
sys.stdout.writelines(["a", sys.stdout.encoding])
sys.stdout.buffer.write(b"\\xff z\\xc3\\xab")
OPTIONS = argparse.ArgumentParser().parse_args()

def f(comm):
    return sys.argv
"""
    outcome = sandbox.run(source, "f", 1, [()])
    assert (outcome.kind, outcome.results) == ("finished", [["submission.py"]]), outcome.message
    assert outcome.output == ["autf-8\\xff zë"]


def test_what_a_program_looks_at_before_it_begins_is_there(sandbox: Sandbox) -> None:
    source = """
import timeit
import mpi4py
mpi4py.rc.recv_mprobe = False
from mpi4py import MPI

def f(comm):
    begin = timeit.default_timer()
    return MPI.Is_initialized(), MPI.Is_finalized(), timeit.default_timer() > begin
"""
    outcome = sandbox.run(source, "f", 1, [()])
    assert (outcome.kind, outcome.results) == ("finished", [(True, False, True)]), outcome.message


def test_a_script_is_read_in_the_encoding_that_it_names(tmp_path: Path) -> None:
    program = "# -*- coding: latin-1 -*-\nNAME = 'Zo\xeb'\r\ndef f():\n    return NAME\n"
    (tmp_path / "a.py").write_bytes(program.encode("latin-1"))
    assert "Zo\xeb" in read_submission(tmp_path / "a.py", "f")
    (tmp_path / "b.py").write_bytes(b"# coding: no-such\ndef f():\n    return 1\n")
    with raises_code(DataError, "not-python", "b.py"):
        read_submission(tmp_path / "b.py", "f")
    (tmp_path / "c.py").write_bytes("def f():\n    return 'Zo\xeb'\n".encode("latin-1"))
    with raises_code(DataError, "unreadable-file", "c.py", "8"):
        read_submission(tmp_path / "c.py", "f")


@pytest.mark.slow
def test_a_rank_that_takes_no_answers_and_sleeps_ends_its_run(sandbox: Sandbox) -> None:
    source = """
import threading

def f(comm):
    asked = {"op": "sendrecv", "comm": -1, "dest": 0, "tag": 0, "source": 0, "recvtag": 0}
    for _ in range(40):
        comm._caller.line.write(asked, [bytes(100_000)])
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
"""
    outcome = sandbox.run(source, "f", 1, [()])
    assert (outcome.kind, outcome.message) == ("time", "it does not take the answers to its calls")


def test_no_run_begins_after_the_time_of_all_is_spent() -> None:
    spent = iter([False, False, True, True])
    bench = OpenBench(lambda comm, data, root: comm.bcast(data, root))
    trial = Trial(bench, Seed(3), is_spent=lambda: next(spent))
    verdict = ASSIGNMENTS["broadcast"].check_named("powers").judge(trial)
    assert verdict.score == 0
    assert verdict.feedback.startswith("Smallest failing case: 8 ranks, root 0, ")
    assert "(2 smaller cases were right): the program takes too long" in verdict.feedback
