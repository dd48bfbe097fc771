"""What is written for other programs comes back as it was: files of every format, and data frames."""

from __future__ import annotations

import json
import struct
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import DataError, LabkitError
from labkit.study.formats.writer import FORMATS
from tests.support.refusals import raises_code


def made(**columns: object) -> lk.Study:
    """A study with two machines, two algorithms, phases, and three repetitions of the times."""
    rows = []
    for on in ("star", "torus:4x4"):
        for coll in ("allreduce=ring", "allreduce=bruck"):
            for ranks in (2, 4, 8, 16, 32):
                base = {"program": "sum", "on": on, "model": "lab", "ranks": ranks, "n": 1000, "coll": coll}
                for k in range(3):
                    time_s = 1e-6 * ranks * (k + 1) / 3
                    rows.append({**base, "repetition": k, "metric": "makespan_s", "value": time_s})
                    rows.append(
                        {**base, "repetition": k, "metric": "phase_s", "phase": "add", "value": time_s / 7}
                    )
                rows.append({**base, "metric": "messages", "value": ranks * 2.0})
    frame = pd.DataFrame(rows).fillna({"phase": "", "repetition": 0}).astype({"repetition": int})
    return lk.Study(frame.assign(**columns), {"seed": 3})


def same(one: lk.Study, other: lk.Study) -> None:
    columns = list(one.data.columns)
    order = [c for c in columns if c != "value"]
    tables = [s.data[columns].sort_values(order, kind="stable").reset_index(drop=True) for s in (one, other)]
    pd.testing.assert_frame_equal(*tables, check_exact=True)


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("columns", [{}, {"on": "star", "coll": "allreduce=ring", "repetition": 0}])
def test_every_format_comes_back_as_it_was(ending, columns, tmp_path):
    study = made(**columns)
    if columns:
        study.data = study.data.drop_duplicates(["ranks", "metric", "phase"]).reset_index(drop=True)
    path = study.export(tmp_path / f"a{ending}")
    same(study, lk.load(path))


def test_an_experiment_holds_the_notes_and_what_extra_p_reads(tmp_path):
    path = made().export(tmp_path / "a.extra-p")
    assert lk.load(path).notes["seed"] == 3
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("experiment.json"))
        index = archive.read("values/0.indx")
    assert document["parameters"] == ["ranks"]
    entry = document["measurements"]["on=star->coll=allreduce=ring->add"]["phase_s"][1]
    assert entry["coordinate"] == [4.0]
    assert entry["repetitions"] == 3
    assert entry["mean"] == pytest.approx(np.mean([entry["minimum"], entry["median"], entry["maximum"]]))
    assert index[:16] == b"Extra-P INDEX\0\0\0"
    assert struct.unpack_from("<Q", index, 16)[0] == (len(index) - 24) // 8


def test_an_experiment_of_extra_p_itself_is_read(tmp_path):
    """As Extra-P 4.2.1 writes one: with raw values of some measurements, and the mean of others."""
    path = made().export(tmp_path / "a.extra-p")
    with zipfile.ZipFile(path) as archive:
        files = {
            name: archive.read(name)
            for name in archive.namelist()
            if "study" not in name and "data" not in name
        }
    document = json.loads(files["experiment.json"])
    entries = document["measurements"]["on=star->coll=allreduce=ring->add"]["phase_s"]
    entries[0]["values"] = None
    files["experiment.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(tmp_path / "b.extra-p", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    found = lk.load(tmp_path / "b.extra-p").data
    rows = found[(found["phase"] == "on=star->coll=allreduce=ring->add") & (found["metric"] == "phase_s")]
    assert rows.groupby("ranks")["value"].count().tolist() == [1, 3, 3, 3, 3]
    assert rows["value"].iloc[0] == entries[0]["mean"]


def test_extra_p_s_text_needs_every_point(tmp_path):
    study = made()
    study.data = study.data[(study.data["metric"] != "messages") | (study.data["ranks"] != 4)]
    with raises_code(DataError, "no-data", "on=star-", "coll=allreduce", "ranks=4"):
        study.export(tmp_path / "a.txt")
    same(study, lk.load(study.export(tmp_path / "a.jsonl")))


def test_what_cannot_be_written_is_said(tmp_path):
    with raises_code(DataError, "unknown-format"):
        made().export(tmp_path / "a.xlsx")
    with raises_code(DataError, "unwritable-file"):
        made().export(tmp_path / "nowhere" / "a.csv")
    (tmp_path / "full.csv").symlink_to("/dev/full")
    with raises_code(DataError, "unwritable-file"):
        made().export(tmp_path / "full.csv")
    with raises_code(DataError, "no-data"):
        lk.Study(pd.DataFrame({"kind": ["a"], "metric": ["x"], "value": [1.0]})).export(tmp_path / "a.txt")


@pytest.mark.slow
@given(
    content=st.binary(max_size=300),
    name=st.sampled_from(["experiment.json", "values/0.indx", "values/0.vals"]),
)
def test_damaged_experiments_get_a_sentence(tmp_path_factory, content, name):
    folder = tmp_path_factory.getbasetemp()
    path = made().export(folder / "h.extra-p")
    with zipfile.ZipFile(path) as archive:
        files = {one: archive.read(one) for one in archive.namelist() if "study" not in one}
    files[name] = content
    with zipfile.ZipFile(folder / "broken.extra-p", "w") as archive:
        for one, text in files.items():
            archive.writestr(one, text)
    try:
        lk.load(folder / "broken.extra-p")
    except LabkitError as error:
        said = str(error)
    else:
        said = "it still holds values"
    assert said


@pytest.mark.parametrize("is_wide", [False, True])
def test_frames_come_back(is_wide):
    study = made()
    frame = study.to_frame(wide=is_wide)
    if is_wide:
        assert "phase_s:add" in frame
        assert len(frame) == 60
    same(study, lk.Study.from_frame(frame))
    same(study, lk.Study.from_frame(frame.to_dict("list")))
    same(study, lk.Study.from_frame(frame.to_dict("records")))


def test_a_frame_of_polars_needs_no_pyarrow():
    class Frame:
        """As polars.DataFrame, as far as it is used."""

        def to_dict(self, as_series: bool) -> dict[str, list[float]]:
            assert not as_series
            return {"p": [2, 4, 8, 16, 32], "time_s": [1.0, 2.0, 4.0, 8.0, 16.0]}

    Frame.__module__ = "polars.dataframe.frame"
    assert lk.Study.from_frame(Frame()).expect("p").match == "exact"


def test_a_frame_of_ones_own():
    frame = pd.DataFrame({
        "n": [10, 10, 20, 20], "p": [1, 1, 1, 1], "kind": list("aabb"), "sort_s": [1.0, 2.0, 3.0, 4.0],
        "swaps": [5, 5, 9, np.nan],
    })  # fmt: skip
    study = lk.Study.from_frame(frame, parameters=["n", "kind"], metrics=["sort_s", "swaps"])
    assert study.parameters == ["n", "kind"]
    assert study.data["repetition"].tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert study.data["unit"].unique().tolist() == ["s", ""]
    assert lk.Study.from_frame(frame).parameters == ["n", "p", "kind", "swaps"]


@pytest.mark.parametrize(
    ("frame", "how", "wanted"),
    [
        (3, {}, ("wrong-type",)),
        ({}, {}, ("no-data",)),
        ({"p": [1, 2]}, {}, ("missing-key",)),
        ({"p": [1], "t": [2]}, {"metrics": "u"}, ("unknown-name", "'u'")),
        ({"p": [1], "t": ["x"]}, {}, ("wrong-type", "row 0", "'x'")),
        ({"p": [1], "t": [float("inf")]}, {}, ("not-finite",)),
        ({"p": [1, 2], "t": [3]}, {}, ("malformed-file",)),
    ],
)
def test_frames_that_hold_no_measurements_are_refused(frame, how, wanted: tuple[str, ...]):
    with raises_code(DataError, *wanted):
        lk.Study.from_frame(frame, **how)
