"""The folder listing is the registry; defaults make sense; requirements are kept."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from labkit import registry, selector
from labkit.errors import ScheduleError
from labkit.schedule import PROBLEMS, check
from tests.support.refusals import raises_code


def test_every_file_is_registered() -> None:
    package = importlib.import_module("labkit.algorithms")
    for folder in Path(package.__path__[0]).iterdir():
        if (folder / "__init__.py").exists() and folder.name != "teaching":
            files = {f.stem for f in folder.glob("*.py") if not f.stem.startswith("_")}
            assert files == set(registry.names(folder.name))
            for name in files:
                assert registry.get(folder.name, name).name == name
    forms = Path(package.__path__[0]).glob("teaching/*/[!_]*.py")
    assert {(form.parent.name, form.stem) for form in forms} == set(registry.teaching_forms())


def test_every_collective_has_an_algorithm() -> None:
    assert {problem for problem, _ in registry.schedules()} == set(PROBLEMS)


@pytest.mark.parametrize(("problem", "name"), registry.schedules())
def test_every_file_says_what_it_must(problem: str, name: str) -> None:
    text = importlib.import_module(f"labkit.algorithms.{problem}.{name}").__doc__ or ""
    for part in ("**Cost**:", "**Requires**:", "**Properties**:", "**Reference**:", "doi:10.", ">>> "):
        assert part in text


@pytest.mark.parametrize("problem", sorted(PROBLEMS))
def test_a_default_exists_for_everything_and_is_right(problem: str) -> None:
    for ranks in (1, 2, 3, 8, 12):
        for n_bytes in (0, 8, 4096, 1 << 22):
            for commutative in (True, False):
                algorithm = selector.default(problem, ranks, n_bytes, commutative)
                assert check(algorithm.build(ranks, commutative=commutative))


def test_defaults_follow_size_and_operator() -> None:
    assert selector.default("allreduce", 64, 8).name == "recursive_doubling"
    assert selector.default("allreduce", 64, 1 << 22).name == "rabenseifner"
    assert selector.default("allreduce", 63, 1 << 22).name == "ring"
    assert selector.default("allreduce", 63, 1 << 16).name == "circulant"
    assert selector.default("allreduce", 64, 1 << 22, commutative=False).name == "rabenseifner"
    assert selector.default("alltoall", 64, 8).name == "bruck"
    assert selector.default("alltoall", 64, 1 << 16).name == "pairwise"
    assert selector.default("allgather", 64, 8).name == "recursive_doubling"
    assert selector.default("allgather", 65, 8).name == "bruck"
    assert selector.default("allgather", 65, 1 << 20).name == "ring"
    for problem in ("bcast", "reduce"):
        assert selector.default(problem, 64, 8192).name == "binomial"
        assert selector.default(problem, 64, 1 << 20).name.startswith("circulant:segments=")
    assert selector.default("reduce", 64, 1 << 20, commutative=False).name == "binomial"
    assert selector.default("reduce", 64, 1 << 20, is_cuttable=False).name == "binomial"


def test_what_is_missing_is_said() -> None:
    with raises_code(ScheduleError, "malformed-schedule", "ring"):
        registry.get("allreduce", "ring").build(4, commutative=False)
    with raises_code(ScheduleError, "unknown-name", "allreduce", "'rign'"):
        registry.get("allreduce", "rign")
    with raises_code(ScheduleError, "unknown-name", "'allreduec'"):
        registry.names("allreduec")
    with raises_code(ScheduleError, "not-enough-data", "1", "0"):
        registry.get("allreduce", "ring").build(0)
    with raises_code(ScheduleError, "out-of-range", "4", "0..3"):
        registry.get("bcast", "binomial").build(4, root=4)
