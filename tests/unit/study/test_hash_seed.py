"""Sweeps over workers by programs that go through sets of texts: as the serial sweep of the same session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

SCRIPT = '''
import json, time
import labkit as lk

NAMES = [f"name {i}" for i in range(40)]


def plain(comm, n=1):
    comm.bcast(bytes(100 * n))


def ordered(comm, n=1):
    """Its time is that of the first of a set."""
    first = next(iter(set(NAMES)))
    lk.compute(seconds=1e-6 * n * (1 + NAMES.index(first)))
    comm.barrier()


def swept(program, **how):
    study = lk.sweep(program, [1, 2, 4], "star", n=[1, 2], progress=False, **how)
    return study.data["value"].tolist() if "measure" not in how else None, study.notes["remarks"]


def measure(run):
    return {"clock": time.perf_counter()}


print(json.dumps({
    "plain": [swept(plain), swept(plain, jobs=2)],
    "ordered": [swept(ordered), swept(ordered, jobs=2)],
    "measured": [swept(plain, measure=measure, jobs=2)],
}))
'''


def told(tmp_path: Any, seed: str) -> Any:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_seed_that_is_known_is_shared(tmp_path: Any) -> None:
    found = told(tmp_path, "5")
    for serial, spread in (found["plain"], found["ordered"]):
        assert spread == serial
        assert spread[1] == []


@pytest.mark.slow
def test_under_a_seed_that_is_not_known_a_program_that_depends_on_it_is_not_spread(tmp_path: Any) -> None:
    found = told(tmp_path, "random")
    serial, spread = found["plain"]
    assert spread == serial
    serial, spread = found["ordered"]
    assert spread[0] == serial[0]
    assert serial[1] == []
    assert [remark.partition(":")[0] for remark in spread[1]] == ["not spread over processes"]
    assert found["measured"][0][1] == [], "a clock differs under one seed, too"


def test_which_seeds_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    from labkit.study import worker_setup

    if not sys.flags.hash_randomization:
        assert worker_setup.known_seed() == "0"
        return
    for given, known in (("17", "17"), ("random", None), ("", None), ("x", None)):
        monkeypatch.setenv("PYTHONHASHSEED", given)
        assert worker_setup.known_seed() == known
