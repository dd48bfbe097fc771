"""Files that were written before the package's modules moved: they still open, and come out the same."""

import pickle
import warnings
from pathlib import Path

import pytest

import labkit as lk
from labkit import local

BEFORE = Path(__file__).with_name("before")


def unpickled(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # an old name says that it will go
        return pickle.loads((BEFORE / name).read_bytes())


def test_a_bundle_is_run_again_and_comes_out_the_same():
    found = lk.verify(BEFORE / "bundle.zip")
    assert (found.outcome, found.compared) == ("same", 192)
    assert found.identity == "3d0c937e90050982b771ab341a5d5439a1931c1a4da8696ed0ad09fc5f358b73"


def test_a_saved_study_is_the_one_in_the_bundle():
    study = lk.load(BEFORE / "study.zip")
    assert study.data.equals(lk.load(BEFORE / "bundle.zip").data)
    assert study.parameters == ["ranks", "n", "work", "machine"]


def test_a_pickled_run_has_its_phases_and_its_trace():
    run = unpickled("run.pkl")
    assert (run.ranks, run.makespan_s, run.messages) == (4, 0.0001253121572447341, 12)
    assert list(run.phases["phase"].unique()) == ["all", "sort"]
    assert len(run.trace.messages) == run.messages


def test_a_pickled_study_is_the_saved_one():
    found, saved = unpickled("more.pkl")["study"], lk.load(BEFORE / "study.zip")
    assert type(found) is type(saved)
    assert found.data["value"].equals(saved.data["value"])
    assert found.notes == saved.notes


@pytest.mark.parametrize("name", ["verdict", "costs", "platform"])
def test_other_pickles_are_what_they_were(name):
    found = unpickled("more.pkl")[name]
    fresh = {
        "verdict": lambda: lk.judge([2, 4, 8, 16, 32], [1, 2, 3, 4, 5], "log p"),
        "costs": local.calibration,
        "platform": lambda: lk.platform("dragonfly:2x2:2x2:2x2:2"),
    }[name]()
    assert type(found) is type(fresh)
    assert str(found) == str(fresh)
