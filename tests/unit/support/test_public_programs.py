"""The table of public programs: a part of the list never replaces the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import public


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of two programs, and a document of before."""
    listed = {"one/repository": {"commit": "abc", "programs": ["a.py", "b.py"]}}
    monkeypatch.setattr(public, "programs", lambda: listed)
    monkeypatch.setattr(public, "ROOT", tmp_path)
    monkeypatch.setattr(public, "BUILD", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "public-programs.md").write_text("of before")
    return tmp_path


def test_the_document_is_kept_until_every_program_has_been_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert public.written({"4 one/repository a.py": "same", "256 one/repository b.py": "2 lines"}) == 1
    assert (place / "docs" / "public-programs.md").read_text() == "of before"
    assert "1 of 2 programs have not been run here" in capsys.readouterr().out
    assert "- same: 1" in (place / "table.md").read_text()


def test_the_document_is_written_once_all_were_run(place: Path) -> None:
    assert public.written({"4 one/repository a.py": "same", "4 one/repository b.py": "same"}) == 0
    assert "- same: 2" in (place / "docs" / "public-programs.md").read_text()
