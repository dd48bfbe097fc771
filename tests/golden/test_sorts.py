"""Simulated times of the five sorts, to the last bit.

Each case is one run under the model `lab` with the shipped calibration: seeded keys, its makespan, the
longest time in each phase, its messages and bytes. They change only when an algorithm, a model, a
calibration or a collective's default does; then the command below writes them anew, and the commit says why.

    python tests/golden/test_sorts.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit import registry
from labkit.datasets import inputs

FILE = Path(__file__).with_name("sorts.json")
MACHINES = ("star:64", "torus:4x4x4", "fattree:8x8:1x4:1x1")
#: kind of keys, ranks, keys per rank
LOADS = (("uniform", 64, 200), ("zipf", 13, 60))
CASES = [(sort, on, *load) for sort in registry.names("sorting") for on in MACHINES for load in LOADS]


def program(comm: Any, sort: str, kind: str, n_local: int) -> None:
    function = registry.get("sorting", sort).function
    assert function is not None
    function(comm, inputs.keys(kind, comm.rank, comm.size, n_local, seed=7))


def measured(sort: str, on: str, kind: str, ranks: int, n_local: int) -> dict[str, Any]:
    """Run one case; times as hexadecimal floats, which hold every bit."""
    n_local = registry.get("sorting", sort).requirements.keys_per_rank or n_local
    run = lk.run(program, ranks, on, args=(sort, kind, n_local), model="lab", calibration="default")
    return {
        "makespan_s": run.makespan_s.hex(),
        "phases_s": {name: largest.hex() for name, _, largest, _, _ in run.phase_rows()},
        "messages": run.messages,
        "bytes": run.bytes,
    }


def key_of(case: tuple[Any, ...]) -> str:
    return " ".join(map(str, case))


@pytest.mark.parametrize("case", CASES, ids=key_of)
def test_simulated_times_are_what_they_were(case: tuple[Any, ...]) -> None:
    golden = json.loads(FILE.read_text(encoding="utf-8"))
    assert measured(*case) == golden[key_of(case)]


def test_there_is_no_other_case() -> None:
    assert set(json.loads(FILE.read_text(encoding="utf-8"))) == set(map(key_of, CASES))


if __name__ == "__main__":
    FILE.write_text(json.dumps({key_of(case): measured(*case) for case in CASES}, indent=1) + "\n")
    print(f"wrote {len(CASES)} cases to {FILE}")
