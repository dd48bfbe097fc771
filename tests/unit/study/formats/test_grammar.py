"""Grammars of files of measurements: what stands in a file is used, refused by name, or remarked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit.errors import DataError
from tests.support.refusals import raises_code

TEXT = (
    "{before}PARAMETER p{name}\nPOINTS {points}\nREGION {region}\nMETRIC {metric}\n"
    "DATA {data}\nDATA 3\n{after}"
)
TEXT_FIELDS = {
    "before": "", "name": "", "points": "2 4", "region": "r", "metric": "m", "data": "1 2", "after": "",
}  # fmt: skip
NESTED: dict[str, Any] = {
    "parameters": ["p"],
    "measurements": {"r": {"m": [{"point": [2], "values": [1, 2]}, {"point": [4], "values": [3]}]}},
}
IDS: dict[str, Any] = {
    "parameters": [{"id": 1, "name": "p"}],
    "callpaths": [{"id": 1, "name": "r"}],
    "metrics": [{"id": 1, "name": "m"}],
    "coordinates": [
        {"id": number, "parameter_value_pairs": [{"parameter_id": 1, "parameter_value": p}]}
        for number, p in ((1, 2), (2, 4))
    ],
    "measurements": [
        {"id": number, "coordinate_id": at, "callpath_id": 1, "metric_id": 1, "value": number}
        for number, at in ((1, 1), (2, 1), (3, 2))
    ],
}
LINES: list[dict[str, Any]] = [
    {"params": {"p": 2}, "callpath": "r", "metric": "m", "value": [1, 2]},
    {"params": {"p": 4}, "callpath": "r", "metric": "m", "value": 3},
]

#: a field's text, and a part of the refusal; "": it is used; "remarked": it is left out and noted
TEXT_CASES = [
    ("before", "# a comment\n", "same"),
    ("name", " n", "coordinates"),
    ("name", " p", "named twice"),
    *(("name", f" {name}", name) for name in ("value", "metric", "phase", "unit", "repetition", "is_valid")),
    ("points", "(2) (4)", "same"),
    ("points", "3 4", ""),
    ("points", "2 2", "named twice"),
    ("points", "2 inf", "finite"),
    ("points", "2 nan", "finite"),
    ("points", "1_0 4", "1_0"),
    ("points", "(2 4", "not closed"),
    ("points", "2) 4", "parentheses"),
    ("region", "s", ""),
    ("metric", "time_s", ""),
    ("data", "1 x", "'x'"),
    ("data", "1 1_0", "1_0"),
    ("data", "", "remarked"),
    ("after", "PARAMETER n\n", "after DATA"),
    ("after", "POINTS 8\n", "after DATA"),
    ("after", "EXPERIMENT e\n", "EXPERIMENT"),
    ("after", "DATA 4\n", "more DATA"),
    ("after", "METRIC m\nDATA 1\nDATA 2\n", "already"),
    ("after", "METRIC k\nDATA 1\nDATA 2\n", ""),
]
#: changes of JSON: a path of keys, the value put there, and as above
NESTED_CASES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("parameters",), "p", "parameters must be a list"),
    (("parameters",), [1], "a name of parameters"),
    (("parameters",), ["p", "p"], "named twice"),
    (("parameters",), ["value"], "value"),
    (("name",), "x", "remarked"),
    (("measurements", "s"), {"m": [{"point": [2], "values": [1]}]}, ""),
    (("measurements", "r", "k"), [{"point": [2], "values": [1]}], ""),
    (("measurements", "r", "m", 0, "point"), "2", "point must be a list"),
    (("measurements", "r", "m", 0, "point"), [2, 3], "2 coordinates"),
    (("measurements", "r", "m", 0, "point"), [None], "not a number"),
    (("measurements", "r", "m", 0, "point"), [True], "not a number"),
    (("measurements", "r", "m", 0, "values"), "12", "values must be a list"),
    (("measurements", "r", "m", 0, "values"), [True], "not a number"),
    (("measurements", "r", "m", 0, "values"), [], "remarked"),
    (("measurements", "r", "m", 0, "unit"), "s", "remarked"),
    (("measurements", "r", "m", 1, "point"), [2], ""),
]
IDS_CASES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("parameters", 0, "name"), "value", "value"),
    (("parameters", 0, "unit"), "s", "remarked"),
    (("callpaths", 0, "name"), "s", ""),
    (("callpaths", 0, "name"), 3, "a name of callpaths"),
    (("callpaths", 0, "id"), 3, "structure"),
    (("metrics", 0, "description"), "x", "remarked"),
    (("coordinates", 0, "parameter_value_pairs"), [], "no value"),
    (("coordinates", 0, "parameter_value_pairs", 0, "parameter_value"), "inf", "finite"),
    (("coordinates", 0, "parameter_value_pairs", 0, "parameter_value"), 3, ""),
    (("coordinates", 0, "id"), 2, "one id"),
    (("coordinates", 0, "x"), 2, "remarked"),
    (("measurements", 0, "value"), "x", "'x'"),
    (("measurements", 0, "unit"), "s", "remarked"),
    (("measurements", 0, "coordinate_id"), 7, "structure"),
    (("measurements", 2, "coordinate_id"), 1, ""),
    (("name",), 1, "remarked"),
]
LINES_CASES: list[tuple[tuple[Any, ...], Any, str]] = [
    ((0, "params"), {"n": 2}, "parameters are"),
    ((0, "params"), {"value": 2}, "value"),
    ((0, "params"), {"p": "fast"}, "'fast'"),
    ((0, "params"), {"p": None}, "not a number"),
    ((0, "parameters"), {"p": 2}, "remarked"),
    ((0, "callpath"), "s", ""),
    ((0, "callpath"), 3, "callpath and metric"),
    ((0, "metric"), "k", ""),
    ((0, "call_path"), "s", "remarked"),
    ((0, "value"), True, "not a number"),
    ((0, "value"), [], "remarked"),
    ((1, "params", "p"), 2, ""),
]
CSV = "{head}\n{first}\n4,3\n"
CSV_CASES = [
    ("head", "n,t", ""),
    ("head", "value,t", "value"),
    ("head", "p,t,u", "cells"),
    ("first", "inf,1", "finite"),
    ("first", "nan,1", "finite"),
    ("first", "1_0,1", "1_0"),
    ("first", "2,1_0", "1_0"),
    ("first", "2,", "remarked"),
    ("first", '2,"1', "row"),
    ("first", "2,١", "not a number"),
]
LONG = "p,metric,value,repetition,is_valid\n{row}\n4,m,3,0,true\n"
LONG_CASES = [
    ("3,m,1,0,true", ""),
    ("2,k,1,0,true", ""),
    ("2,m,1,1,true", ""),
    ("2,m,1,0,no", ""),
    ("2,m,1,0,maybe", "maybe"),
    ("2,m,1,-1,true", "-1"),
    ("2,m,1,0.5,true", "0.5"),
    ("2,m,1_0,0,true", "1_0"),
    ("inf,m,1,0,true", "finite"),
    (",m,1,0,true", "remarked"),
    ("2,m,,0,true", "remarked"),
    ("2,,1,0,true", "metric"),
]


def _read(path: Path, text: str) -> tuple[Any, list[str]]:
    path.write_text(text)
    study = lk.load(path)
    return study.data.to_dict("list"), study.notes.get("remarks", [])


def _judge(path: Path, before: str, after: str, what: str) -> None:
    data, remarks = _read(path, before)
    assert remarks == []
    if what not in ("", "same", "remarked"):
        with pytest.raises(DataError, match=what):
            _read(path, after)
        return
    found, remarks = _read(path, after)
    assert (found != data) == (what == "") or what == "remarked"
    assert (remarks != []) == (what == "remarked")


@pytest.mark.parametrize(("field", "text", "what"), TEXT_CASES)
def test_extra_p_text(field, text, what, tmp_path):
    changed = TEXT.format(**{**TEXT_FIELDS, field: text})
    _judge(tmp_path / "t.txt", TEXT.format(**TEXT_FIELDS), changed, what)


def _changed(content: Any, keys: tuple[Any, ...], value: Any) -> Any:
    made = json.loads(json.dumps(content))
    place = made
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return made


@pytest.mark.parametrize(
    ("content", "keys", "value", "what"),
    [(NESTED, *case) for case in NESTED_CASES] + [(IDS, *case) for case in IDS_CASES],
)
def test_extra_p_json(content, keys, value, what, tmp_path):
    changed = json.dumps(_changed(content, keys, value))
    _judge(tmp_path / "t.json", json.dumps(content), changed, what)


@pytest.mark.parametrize(("keys", "value", "what"), LINES_CASES)
def test_extra_p_json_lines(keys, value, what, tmp_path):
    before, after = (
        "\n".join(map(json.dumps, lines)) + "\n" for lines in (LINES, _changed(LINES, keys, value))
    )
    _judge(tmp_path / "t.jsonl", before, after, what)


@pytest.mark.parametrize(("field", "text", "what"), CSV_CASES)
def test_tables(field, text, what, tmp_path):
    known = {"head": "p,t", "first": "2,1"}
    _judge(tmp_path / "t.csv", CSV.format(**known), CSV.format(**{**known, field: text}), what)


@pytest.mark.parametrize(("row", "what"), LONG_CASES)
def test_tables_of_rows(row, what, tmp_path):
    _judge(tmp_path / "t.csv", LONG.format(row="2,m,1,0,true"), LONG.format(row=row), what)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("p;time_s\n4;0,5\n8;1,25\n", [0.5, 1.25]),
        ("p\ttime\n4\t0,5\n8\t1,25\n", [0.5, 1.25]),
        ("p time\n4 0,5\n8 1,25e-1\n", [0.5, 0.125]),
        ('p,time\n4,"0,5"\n8,"1,25"\n', [0.5, 1.25]),
        ("4;0,5\n8;1,25\n", [0.5, 1.25]),
        ("p;time\n4;0,234\n8;2,345\n", [0.234, 2.345]),
        ("sep=;\np;time\n4;0,5\n8;1,25\n", [0.5, 1.25]),
        ("ranks;metric;value;grid\n4;t;0,5;2,2\n8;t;1,25;a\n", [0.5, 1.25]),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_decimal_commas(text, values, encoding, tmp_path):
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    path = tmp_path / "times.csv"
    path.write_bytes((mark + text).replace("\n", "\r\n").encode(encoding))
    study = lk.load(path)
    assert list(study.data["value"]) == values
    assert any("decimal commas" in remark for remark in study.notes["remarks"])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("p;time\n4;1,234\n8;2,345\n", ("malformed-line", "row 2", "'1,234'")),
        ("p;time\n4;1,234,567\n8;2,345,678\n", ("malformed-line", "'1,234,567'")),
        ("p;time\n4;1.234,5\n8;2.345,5\n", ("malformed-line", "'1.234,5'")),
        ("p;time\n4;1'234\n8;2'345\n", ("malformed-line",)),
        ("p;time\n4;1 234\n8;2 345\n", ("malformed-line",)),
        ("p;time;x\n4;0,5;0.5\n8;1,25;0.7\n", ("malformed-line",)),
        ("p,time\n4,0,5\n8,1,25\n", ("count-mismatch", "row 2", "3")),
        ("p;time\n4;0.5 ms\n8;0.9 ms\n", ("malformed-line", "'0.5 ms'")),
    ],
)
def test_numbers_that_are_spelled_in_another_way(text, wanted: tuple[str, ...], tmp_path):
    path = tmp_path / "times.csv"
    path.write_text(text)
    with raises_code(DataError, *wanted):
        lk.load(path)


@pytest.mark.parametrize(
    ("metric", "unit"),
    [("time [s]", "s"), ("time (ms)", "ms"), ("volume[MiB]", "MiB"), ("rate (GB/s)", "GB/s"), ("f(x)", "")],
)
def test_units_in_brackets(metric, unit, tmp_path):
    path = tmp_path / "times.csv"
    path.write_text(f"p;{metric}\n4;0.5\n8;0.9\n")
    data = lk.load(path).data
    assert set(data["unit"]) == {unit}
    assert set(data["metric"]) == {metric}


def test_texts_of_a_study_s_own_table_stay(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text('ranks,metric,value,grid\n4,t,0.5,"2,2"\n8,t,0.9,"2,4"\n')
    assert list(lk.load(path).data["grid"]) == ["2,2", "2,4"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32"])
def test_texts_with_zero_bytes_are_refused(encoding, tmp_path):
    path = tmp_path / "times.csv"
    path.write_bytes("p,time\n4,0.5\n8,0.9\n".encode(encoding))
    with raises_code(DataError, "unreadable-file"):
        lk.load(path)
