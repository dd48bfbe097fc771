"""How a real rank writes its failure down."""

from __future__ import annotations

import json

import pytest

from labkit.real.mpi import child as mpi_child

CHILD = mpi_child._Child


@pytest.mark.parametrize("first_is_longer", [True, False])
def test_two_processes_that_hold_themselves_for_one_rank(monkeypatch, tmp_path, first_is_longer):
    """Whoever is slower, what is read in the end is one whole record."""
    records = [{"rank": 0, "text": "x" * (20 if first_is_longer else 5)}, {"rank": 0, "text": "y" * 10}]
    dump, pids = json.dump, iter([101, 102])
    monkeypatch.setattr(mpi_child.os, "getpid", lambda: next(pids))

    def interrupted(record, file):
        """The second process does all of its writing between the first one's open and write."""
        monkeypatch.setattr(json, "dump", dump)
        CHILD(str(tmp_path), 0)._record(records[1])
        dump(record, file)

    monkeypatch.setattr(json, "dump", interrupted)
    CHILD(str(tmp_path), 0)._record(records[0])
    assert json.loads((tmp_path / "rank-0.error").read_text()) in records
    assert [path.name for path in tmp_path.iterdir()] == ["rank-0.error"]


def test_a_record_is_written_though_there_is_no_result_to_remove(monkeypatch, tmp_path):
    """On a full disk the result makes room, but a rank may fail before it has one."""

    def no_room(_source, _target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mpi_child.os, "replace", no_room)
    CHILD(str(tmp_path), 3)._record({"rank": 3, "text": "the reason"})
    text = json.loads((tmp_path / "rank-3.error").read_text())["text"]
    assert "the reason" in text
    assert "No space left" in text
