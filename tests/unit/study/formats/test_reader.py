"""Saved studies and files of others: round trips, damage, full disks, and the formats of Extra-P."""

from __future__ import annotations

import errno
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import DataError
from labkit.study import Study
from tests.support.refusals import raises_code


def study_of(values: list[float], text: str = 'a, "b"\nc') -> Study:
    rows = [
        {
            **{"program": text, "on": "star", "ranks": 2**i, "n": 0.1 * i, "flag": i % 2 == 0},
            **{"metric": "makespan_s", "value": v},
        }
        for i, v in enumerate(values)
    ]
    return Study(pd.DataFrame(rows), {"failures": [{"point": "ranks=3", "error": "no"}], "seed": 7})


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=8),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(lambda t: t == t.strip()),
)
def test_a_round_trip_keeps_every_bit(values: list[float], text: str) -> None:
    import tempfile

    study = study_of(values, text)
    with tempfile.TemporaryDirectory() as folder:
        again = lk.load(study.save(Path(folder) / "s.study"))
    pd.testing.assert_frame_equal(again.data, study.data, check_exact=True)
    assert again.notes == study.notes


def test_a_round_trip_keeps_kinds_quotes_and_line_breaks(tmp_path: Path) -> None:
    study = study_of([1.5, 2.25e-300, 0.1])
    again = lk.load(study.save(tmp_path / "s"))
    assert again.data["ranks"].dtype.kind == "i"
    assert again.data["flag"].dtype.kind == "b"
    assert again.data["program"].iloc[0] == 'a, "b"\nc'
    assert again.failures == study.failures


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    study = study_of([1.0, 2.0])
    assert study.save(tmp_path / "a").read_bytes() == study.save(tmp_path / "b").read_bytes()


def test_the_file_is_readable_without_labkit(tmp_path: Path) -> None:
    with zipfile.ZipFile(study_of([1.0]).save(tmp_path / "s.study")) as archive:
        assert sorted(archive.namelist()) == ["data.csv", "study.json"]
        table = pd.read_csv(io.BytesIO(archive.read("data.csv")))
        assert json.loads(archive.read("study.json"))["version"] == 1
    assert table["value"].tolist() == [1.0]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = study_of([1.0]).save(tmp_path / "s.study")
    before = path.read_bytes()

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with raises_code(DataError, "unwritable-file"):
        study_of([1.0, 2.0]).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["s.study"], "no temporary file is left"


def test_an_interrupted_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = study_of([1.0]).save(tmp_path / "s.study")

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        study_of([1.0, 2.0]).save(path)
    assert len(lk.load(path)) == 1
    assert os.listdir(tmp_path) == ["s.study"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with raises_code(DataError, "unwritable-file"):
        study_of([1.0]).save(tmp_path / "missing" / "s.study")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_files_are_refused_or_read_as_they_were(data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = study_of([1.0, 2.0, 3.0]).save(Path(folder) / "s.study")
        content = bytearray(path.read_bytes())
        cut = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content = content[:cut]
        else:
            content[cut] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        try:
            again = lk.load(path)
        except DataError:
            return
        pd.testing.assert_frame_equal(again.data, study_of([1.0, 2.0, 3.0]).data)


@pytest.mark.parametrize(
    ("manifest", "table", "wanted"),
    [
        ({"format": "other"}, "", ("malformed-file",)),
        ({"format": "labkit-study", "version": 99}, "", ("unsupported-version", "99")),
        ({"format": "labkit-study", "version": 1}, "", ("damaged-file",)),
        (
            {"format": "labkit-study", "version": 1, "columns": {"a": "int"}, "rows": 1},
            "a\nx\n",
            ("damaged-file",),
        ),
        (
            {"format": "labkit-study", "version": 1, "columns": {"a": "int"}, "rows": 2},
            "a\n1\n",
            ("damaged-file", "1", "2"),
        ),
        ([], "", ("malformed-file",)),
    ],
)
def test_foreign_and_newer_files_are_refused(
    tmp_path: Path, manifest: Any, table: str, wanted: tuple[str, ...]
) -> None:
    path = tmp_path / "s.study"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("study.json", json.dumps(manifest))
        archive.writestr("data.csv", table)
    with raises_code(DataError, *wanted):
        lk.load(path)


# ------------------------------------------------------------------------------- files of others

TEXT = """\
# a comment
PARAMETER p
PARAMETER n
POINTS ( 2 10 ) ((4) (10)) ( 8 10 )

METRIC time
REGION main->sort
DATA 1.5 1.25
DATA 2.5
DATA 3.5 3.25 3.0
REGION main
DATA 10
DATA 20
DATA 30
"""
NESTED = {
    "parameters": ["p", "n"],
    "measurements": {
        "main->sort": {
            "time": [
                {"point": [2, 10], "values": [1.5, 1.25]},
                {"point": [4, 10], "values": [2.5]},
                {"point": [8, 10], "values": [3.5, 3.25, 3.0]},
            ]
        },
        "main": {"time": [{"point": [p, 10], "values": [5 * p if p < 8 else 30]} for p in (2, 4, 8)]},
    },
}
NESTED["measurements"]["main"]["time"] = [  # type: ignore[index]
    {"point": [p, 10], "values": [v]} for p, v in ((2, 10), (4, 20), (8, 30))
]


def by_ids() -> dict[str, Any]:
    """Return the same measurements in the older JSON format."""
    points, phases, out = [(2, 10), (4, 10), (8, 10)], ["main->sort", "main"], []
    for phase, metrics in NESTED["measurements"].items():  # type: ignore[attr-defined]
        for m in metrics["time"]:
            ids = {
                "callpath_id": phases.index(phase) + 1,
                "coordinate_id": points.index(tuple(m["point"])) + 1,
            }
            out += [{**ids, "metric_id": 1, "id": 1, "value": v} for v in m["values"]]
    return {
        "parameters": [{"id": 1, "name": "p"}, {"id": 2, "name": "n"}],
        "callpaths": [{"id": i + 1, "name": n} for i, n in enumerate(phases)],
        "metrics": [{"id": 1, "name": "time"}],
        "coordinates": [
            {"id": i + 1, "parameter_value_pairs": [
                {"parameter_id": 1, "parameter_value": a}, {"parameter_id": 2, "parameter_value": b}]}
            for i, (a, b) in enumerate(points)
        ],
        "measurements": out,
    }  # fmt: skip


def lines() -> str:
    out = []
    for phase, metrics in NESTED["measurements"].items():  # type: ignore[attr-defined]
        for m in metrics["time"]:
            point = dict(zip(("p", "n"), m["point"], strict=True))
            value = m["values"] if len(m["values"]) > 1 else m["values"][0]
            out.append(json.dumps({"params": point, "callpath": phase, "metric": "time", "value": value}))
    return "\n".join(out) + "\n\n"


@pytest.mark.parametrize(
    "content", [TEXT, json.dumps(NESTED, indent=2), json.dumps(by_ids()), lines()],
    ids=["text", "json", "json-ids", "json-lines"],
)  # fmt: skip
def test_the_formats_of_extra_p_say_the_same(tmp_path: Path, content: str) -> None:
    path = tmp_path / "data"
    path.write_text(content)
    data = lk.load(path).data
    assert set(data["metric"]) == {"time"}
    assert set(data["n"]) == {10.0}
    sort = data[data["phase"] == "main->sort"]
    assert sort["p"].tolist() == [2, 2, 4, 8, 8, 8]
    assert sort["value"].tolist() == [1.5, 1.25, 2.5, 3.5, 3.25, 3.0]
    assert sort["repetition"].tolist() == [0, 1, 0, 0, 1, 2]
    assert data[data["phase"] == "main"]["value"].tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("", ("damaged-file",)),
        ("#", ("malformed-file",)),
        ("# p,t\n\n#1,2\n", ("malformed-file",)),
        pytest.param("p,t\n1," + "9" * 200_000 + "\n", ("malformed-line", "row 2", "CSV"), id="long cell"),
        ("PARAMETER p\nPOINTS 1 2\nDATA 1\n", ("malformed-line", "1", "DATA", "2")),
        ("PARAMETER p\nPOINTS 1\nDATA 1\nDATA 2\n", ("malformed-line", "line 4", "DATA", "1")),
        ("PARAMETER p\nPOINTS 1 2\nDATA 1\nDATA x\n", ("malformed-line", "line 4", "'x'")),
        ("PARAMETER p\nPOINTS 1 2\nREGION a\nDATA 1\nREGION b\n", ("malformed-line", "line 5", "1", "DATA")),
        ("PARAMETER p\nPOINTS 1\nREGION\nDATA 1\n", ("missing-key", "line 3", "REGION")),
        ("PARAMETER p\nPOINTS 1\nREGION r\nMETRIC \nDATA 1\n", ("missing-key", "line 4", "METRIC")),
        ("PARAMETER p\nPOINT 1 2\n", ("malformed-line", "line 2", "'POINT'")),
        ("POINTS 1 2\n", ("malformed-line", "PARAMETER")),
        ("PARAMETER p q\nPOINTS (1 2) (3)\n", ("malformed-line", "1", "2")),
        ('{"parameters": ["p"]', ("malformed-line", "line 1", "JSON")),
        ('{"parameters": ["p"]}', ("malformed-file",)),
        ('{"parameters": ["p"], "measurements": {"a": {"t": [{"point": [1]}]}}}', ("malformed-file",)),
        ('{"parameters": ["p"], "measurements": [1]}', ("malformed-file",)),
        ('{"params": {"p": 1}, "value": 1}\n{"params": {"p": 2}}\n', ("malformed-line", "line 2")),
        ("just some words\n", ("malformed-file",)),
        ("p,t,t\n1,2,3\n", ("duplicate-name", "columns 2", "3", "'t'")),
        ("p,,t\n1,2,3\n", ("missing-key", "column 2")),
        ("p,t,u\n1,2,x\n2,3,4\n", ("malformed-line", "row 2", "'x'")),
        (
            "PARAMETER p\nPOINTS 1\nREGION r\nMETRIC m\nDATA 1\nREGION r\nMETRIC m\nDATA 2\n",
            ("malformed-line", "line 8", "'m'", "'r'", "line 5"),
        ),
        ('{"parameters": ["p"], "measurements": {"a": {}, "a": {}}}', ("malformed-line", "'a'")),
        ("words\n", ("malformed-file", "CSV")),
        ("p,t\n1,2\n3\n", ("count-mismatch", "row 3", "1", "2")),
        ("p,t\n1,2\n2,fast\n", ("malformed-line", "'fast'")),
        ("p,t\nx,2\n", ("malformed-line", "'x'")),
        ("p,t\n", ("malformed-file",)),
    ],
)
def test_senseless_files_are_refused_with_the_place(
    tmp_path: Path, content: str, wanted: tuple[str, ...]
) -> None:
    path = tmp_path / "data"
    path.write_text(content)
    with raises_code(DataError, *wanted):
        lk.load(path)


def test_missing_binary_and_folder_are_refused(tmp_path: Path) -> None:
    with raises_code(DataError, "missing-file"):
        lk.load(tmp_path / "none")
    with raises_code(DataError, "wrong-kind-of-file"):
        lk.load(tmp_path)
    (tmp_path / "b").write_bytes(bytes(range(256)))
    with raises_code(DataError, "unreadable-file"):
        lk.load(tmp_path / "b")
    for markup in ("<?xml version='1.0'?>\n<platform/>\n", '<algo name="ring">\n <gpu id="0"/>\n</algo>\n'):
        (tmp_path / "x").write_text(markup)
        with raises_code(DataError, "wrong-kind-of-file"):
            lk.load(tmp_path / "x")
    (tmp_path / "x").write_text("<p>,time\n1,2\n2,3\n4,6\n")
    assert list(lk.load(tmp_path / "x").data["<p>"]) == [1, 2, 4]
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr("other", "x")
    with raises_code(DataError, "malformed-file", "study.json"):
        lk.load(tmp_path / "z")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " "])
def test_csv_with_any_delimiter(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("# made by hand\nranks,time_s,bytes\n".replace(",", delimiter) + "".join(
        f"{p}{delimiter}{3 * p}{delimiter}{p * p}\n" for p in (2, 4, 8, 16, 32)))  # fmt: skip
    study = lk.load(path)
    assert study.parameters == ["ranks"]
    assert set(study.data["unit"]) == {"s", "B"}
    assert study.expect("p", "time_s").match == "exact"
    assert study.expect("p^2", "bytes").match == "exact"


def test_csv_without_a_header_and_a_studys_own_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("".join(f"{p} {np.log2(p)}\n" for p in (2, 4, 8, 16, 32)))
    assert lk.load(path).expect("log p").match == "exact"
    study = study_of([1.0, 2.0, 4.0], "x")
    study.data.to_csv(path, index=False)
    again = lk.load(path)
    assert again.data["value"].tolist() == [1.0, 2.0, 4.0]
    assert again.data["repetition"].tolist() == study.data["repetition"].tolist()


def test_of_a_trace_the_reader_of_traces_is_named(tmp_path: Path) -> None:
    archive = tmp_path / "run.otf2"
    archive.mkdir()
    (archive / "traces.otf2").write_bytes(b"OTF2\x00\xff")
    for path in (archive, archive / "traces.otf2"):
        with raises_code(DataError, "malformed-file", "OTF2") as told:
            lk.load(path)
        assert f"labkit.read_trace({str(path)!r})" in str(told.value)
    measured = tmp_path / "measured.otf2"
    measured.mkdir()
    with raises_code(DataError, "wrong-kind-of-file"):
        lk.load(measured)


def test_white_space_of_extra_p_is_white_space(tmp_path):
    text = "PARAMETER p q\nPOINTS (4 1) (8 2)\nMETRIC wall time\nREGION main->solve\nDATA 8.1 8.0\nDATA 9\n"
    (tmp_path / "blanks.txt").write_text(text)
    expected = lk.load(tmp_path / "blanks.txt").data
    for space in ("\t", "  \t ", "\t\t"):
        (tmp_path / "tabs.txt").write_text(
            "\n".join(space.join(line.split(" ", 1)) for line in text.split("\n"))
        )
        assert lk.load(tmp_path / "tabs.txt").data.equals(expected)


def test_talpas_is_read(tmp_path):
    line = '{"parameters":{"p":%d};"metric":"a; b";"callpath":"main->solve";"value":%g}'
    path = tmp_path / "talpas.txt"
    for lines in (1, 3):
        path.write_text("\n".join(line % (p, p / 2) for p in (4, 8, 16)[:lines]) + "\n")
        data = lk.load(path).data
        assert data["p"].tolist() == [4, 8, 16][:lines]
        assert data["value"].tolist() == [2.0, 4.0, 8.0][:lines]
        assert set(data["metric"]) == {"a; b"}
        assert set(data["phase"]) == {"main->solve"}


def test_what_a_table_leaves_open_is_remarked(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("p,time,swaps,host\n1,2,,a\n2,3,4,b\n4,5,,c\n")
    study = lk.load(path)
    assert len(study.data) == 4
    assert study.notes["remarks"] == [
        "column 'host' holds no numbers and was left out",
        "2 empty cells were left out of column 'swaps' (row 2, 4)",
    ]


_TEXT = "PARAMETER p\nPOINTS 2 4\nREGION r\nMETRIC m\nDATA 1 2\nDATA 3 4\n"


@pytest.mark.parametrize(
    "text",
    [
        _TEXT.replace("DATA ", "DATA\x0b"),
        _TEXT.replace("DATA ", "DATA\x0c\u3000"),
        _TEXT.replace("REGION", "  # a remark\nREGION"),
        _TEXT.replace("\n", " \x1e\n"),
    ],
)
def test_white_space_is_any_white_space(text: str, tmp_path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text, encoding="utf-8")
    assert list(lk.load(path).data["value"]) == [1, 2, 3, 4]


def test_line_separators_inside_a_json_text_end_no_line(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    row = '{"params": {"p": %d}, "callpath": "a\u2028b", "metric": "m", "value": 1}\n'
    path.write_text(row % 2 + row % 4, encoding="utf-8")
    assert set(lk.load(path).data["phase"]) == {"a\u2028b"}


def test_data_before_its_points_is_named(tmp_path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("PARAMETER p\nDATA 1\n")
    with raises_code(DataError, "malformed-line", "line 2", "POINTS"):
        lk.load(path)
