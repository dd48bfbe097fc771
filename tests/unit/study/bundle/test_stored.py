"""A stored study and a stored bundle: they open, and computing them again gives the same."""

from pathlib import Path

import labkit as lk

STORED = Path(__file__).with_name("stored")


def test_a_bundle_is_run_again_and_comes_out_the_same_but_for_sorts_on_a_machine_with_other_cores():
    found = lk.verify(STORED / "bundle.zip")
    assert found.compared == 192
    # graphene sorts at the speed of its own cores by now, no longer at that of a flop rate
    assert len(found.differences) == 24
    assert all("on graphene" in one.what and one.again > one.stored for one in found.differences)
    assert found.identity == "8b3bfa4a5d0efec7246a1f940ccd27d748cc5640692bd809fb801db2c4562cec"


def test_a_saved_study_is_the_one_in_the_bundle():
    study = lk.load(STORED / "study.zip")
    assert study.data.equals(lk.load(STORED / "bundle.zip").data)
    assert study.parameters == ["ranks", "n", "work", "machine"]
