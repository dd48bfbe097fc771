"""Names of phases that files would read as something else, and those that no file can have."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit.errors import RankError
from tests.support.refusals import raises_code

FORMATS = ["txt", "json", "jsonl", "extra-p", "csv"]
NAMES = [
    "=1+1", '<b onclick="x">', "a=b->c", "<root>", "phase=x", "a->b", "a,b;c", "nan", "0", "True", "#a",
    "'\"", "x" * 10_000, "\u202eabc\u05d0", "👩\u200d🔬",
]  # fmt: skip


def _program(comm, name):
    with lk.phase(name):
        lk.compute(seconds=1e-3 * comm.size)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_phases_keep_their_names(name: str, tmp_path) -> None:
    study = lk.sweep(_program, [2, 4], on="star", args=(name,), progress=False)
    for ending in FORMATS:
        path = study.export(tmp_path / f"a.{ending}")
        assert set(lk.load(path).data["phase"]) == {"", name}, ending


@pytest.mark.parametrize(
    "name", ["", " ", "a\nb", "a\tb", "a\0b", "\x1b[31m", "a\x85b", "a\u2028b", "a\udc80b", 3]
)
def test_names_that_no_file_can_have_are_refused(name: object) -> None:
    with raises_code(RankError, "rank-failed", "ValueError"):
        lk.run(_program, 2, on="star", args=(name,))
    with pytest.raises(ValueError, match=r"sampled work needs a name"):
        lk.sampled(name)


def test_blanks_around_a_name_are_none_of_it(tmp_path) -> None:
    study = lk.sweep(_program, [2, 4], on="star", args=(" sort ",), progress=False)
    assert set(study.data["phase"]) == {"", "sort"}
