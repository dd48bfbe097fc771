"""A user's own algorithms: files of ``my_algorithms``, found and loaded again without a restart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.errors import DataError, ScheduleError
from tests.support.refusals import raises_code

SHIPPED = Path(lk.algorithms.__path__[0]) / "bcast"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of own broadcasts, in the folder that the test runs in."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my_algorithms" / "bcast"
    folder.mkdir(parents=True)
    return folder


def put(folder: Path, source: str, name: str = "mine", version: int = 0) -> Path:
    """Make an own algorithm of a shipped one."""
    path = folder / f"{name}.py"
    path.write_text(
        (SHIPPED / f"{source}.py").read_text("utf-8").replace(f'"{source}"', f'"{name}"'), "utf-8"
    )
    os.utime(path, ns=(version, version))
    return path


def program(comm: Any) -> float:
    data = np.full(1000, comm.rank + 1.0)
    comm.Bcast(data)
    return float(data.sum())


def makespan(name: str) -> float:
    run = lk.run(program, 8, "star", coll={"bcast": name})
    assert run.results == [1000.0] * 8
    assert set(run.collectives.values()) == {name}
    return run.makespan_s


def test_it_is_an_algorithm_as_any_other(own: Path) -> None:
    assert "mine" not in registry.names("bcast")
    put(own, "linear")
    assert "mine" in registry.names("bcast")
    assert makespan("mine") == makespan("linear")
    card = lk.card("bcast", "star", p=8, bytes=[8000], algorithms=["mine", "binomial"])
    assert set(card.data["algorithm"]) == {"mine", "binomial"}
    tuned = lk.tune("bcast", "star", [8], [8000], algorithms=["mine", "binomial"], progress=False)
    assert set(tuned.times["algorithm"]) == {"mine", "binomial"}


def test_a_changed_file_is_loaded_again(own: Path) -> None:
    put(own, "linear")
    linear = makespan("mine")
    put(own, "ring", version=1)
    assert makespan("mine") == makespan("ring") != linear
    (own / "mine.py").unlink()
    with pytest.raises(ScheduleError):
        makespan("mine")


def test_what_is_no_algorithm_is_refused_with_its_file(own: Path) -> None:
    (own / "mine.py").write_text("ALGORITHM = 3\n")
    with raises_code(ScheduleError, "missing-definition", "my_algorithms/bcast/mine.py"):
        registry.get("bcast", "mine")
    (own / "broken.py").write_text("1 / 0\n")
    with raises_code(DataError, "unreadable-file", "broken.py"):
        registry.get("bcast", "broken")
    put(own, "linear", "ring")
    with raises_code(DataError, "name-taken"):
        registry.names("bcast")


def test_the_folder_may_be_elsewhere(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(own, "linear")
    monkeypatch.chdir(own)
    assert "mine" not in registry.names("bcast")
    monkeypatch.setenv("LABKIT_ALGORITHMS", str(tmp_path / "my_algorithms"))
    assert "mine" in registry.names("bcast")


@pytest.mark.mpi
def test_real_ranks_have_it_too(own: Path) -> None:
    put(own, "linear")
    assert lk.run(program, 2, "mpi", coll={"bcast": "mine"}).results == [1000.0] * 2
