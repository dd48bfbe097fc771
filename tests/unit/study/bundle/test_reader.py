"""A damaged, changed or hostile bundle is refused with a sentence, and nothing of it reaches the disk."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.cli import main
from labkit.errors import DataError
from labkit.study.bundle import verify_bundle as reading
from labkit.study.bundle.verify_bundle import open_bundle
from tests.support.refusals import raises_code


def program(comm, n=1):
    comm.allreduce(n)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundle") / "good.zip"
    lk.sweep(program, [2, 4], "star", progress=False).bundle(path)
    return path


def entries(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, files, manifest=True):
    """Write files as a bundle, with a manifest that fits them."""
    if manifest:
        document = json.loads(files["bundle.json"])
        document["files"] = {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
            for name, content in files.items() if name != "bundle.json"
        }  # fmt: skip
        files = {**files, "bundle.json": json.dumps(document).encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_a_good_one_is_whole(good):
    opened = open_bundle(good)
    assert {"data.csv", "recipe.json", "machines.json", "program/program.py"} <= opened.files.keys() | {
        "program/program.py"
    }
    with zipfile.ZipFile(good) as archive:
        assert opened.identity == hashlib.sha256(archive.read("bundle.json")).hexdigest()


@pytest.mark.parametrize("name", ["data.csv", "recipe.json", "environment.json", "machines.json"])
def test_a_changed_file_is_named(good, tmp_path, name):
    files = entries(good)
    files[name] = files[name].replace(b"e", b"f", 1)
    with raises_code(DataError, "damaged-file", name):
        open_bundle(write(tmp_path / "x.zip", files, manifest=False))


def test_a_missing_and_a_foreign_file_are_named(good, tmp_path):
    files = entries(good)
    del files["recipe.json"]
    with raises_code(DataError, "damaged-file", "recipe.json"):
        open_bundle(write(tmp_path / "x.zip", files, manifest=False))
    files = entries(good) | {"more.txt": b"?"}
    with raises_code(DataError, "damaged-file", "more.txt"):
        open_bundle(write(tmp_path / "y.zip", files, manifest=False))


def test_a_manifest_cannot_leave_out_the_data(good, tmp_path):
    files = entries(good)
    del files["data.csv"]
    with raises_code(DataError, "damaged-file", "data.csv"):
        open_bundle(write(tmp_path / "x.zip", files))


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        (2, ("unsupported-version",)),
        (0, ("unsupported-version", "0")),
        ("1", ("unsupported-version", "'1'")),
        (True, ("unsupported-version",)),
    ],
)
def test_other_versions_are_refused(good, tmp_path, version, wanted: tuple[str, ...]):
    files = entries(good)
    files["bundle.json"] = json.dumps({**json.loads(files["bundle.json"]), "version": version}).encode()
    with raises_code(DataError, *wanted):
        open_bundle(write(tmp_path / "x.zip", files))


@pytest.mark.parametrize(
    "name", ["../out.py", "/etc/out", "a/../../b", "a\\b", "C:/b", "a//b", "./a", "a/", "con:stream"]
)
def test_names_that_leave_the_folder_are_refused(good, tmp_path, name):
    path = write(tmp_path / "x.zip", entries(good) | {name: b"evil"})
    with raises_code(DataError, "unsafe-archive"):
        open_bundle(path)
    assert main(["verify", str(path)]) == 3
    assert os.listdir(tmp_path) == ["x.zip"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_a_link_and_a_strange_packing_are_refused(good, tmp_path):
    path = write(tmp_path / "twice.zip", entries(good))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("data.csv", "other")
    with raises_code(DataError, "unsafe-archive"):
        open_bundle(path)
    path = write(tmp_path / "link.zip", entries(good))
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo("program/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with raises_code(DataError, "unsafe-archive"):
        open_bundle(path)
    path = write(tmp_path / "packed.zip", entries(good))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("program/more", "x" * 100)
    with raises_code(DataError, "unsafe-archive"):
        open_bundle(path)


def test_bombs_are_refused_before_they_are_unpacked(good, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MOST_BYTES", 2**24)
    path = write(tmp_path / "large.zip", entries(good))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", bytes(2**24))
    assert path.stat().st_size < 2**20
    with raises_code(DataError, "too-large"):
        open_bundle(path)
    path = tmp_path / "many.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(10_001):
            archive.writestr(str(number), "")
    with raises_code(DataError, "too-large", "10000"):
        open_bundle(path)


def test_a_head_that_lies_about_a_size_is_refused(good, tmp_path):
    """A file that is longer than the zip says would be a bomb that the sum of sizes does not show."""
    path = write(tmp_path / "x.zip", entries(good))
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("data.csv").file_size
    raw = path.read_bytes()
    central = raw.index(b"PK\x01\x02", raw.index(b"PK\x01\x02"))
    at = raw.index(b"data.csv", central) - 46
    assert raw[at : at + 4] == b"PK\x01\x02"
    path.write_bytes(raw[: at + 24] + (size // 2).to_bytes(4, "little") + raw[at + 28 :])
    with raises_code(DataError, "damaged-file"):
        open_bundle(path)


def test_other_files_are_told_apart(tmp_path, good):
    study = tmp_path / "a.study"
    lk.load(good).save(study)
    (tmp_path / "text.zip").write_text("no zip")
    for path, code in [
        (study, "malformed-file"),
        (tmp_path / "text.zip", "damaged-file"),
        (tmp_path / "none.zip", "missing-file"),
        (tmp_path, "wrong-kind-of-file"),
    ]:
        with raises_code(DataError, code):
            open_bundle(path)


@settings(max_examples=60, deadline=None)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_cut_off_anywhere_it_is_refused(good, tmp_path_factory, cut):
    raw = good.read_bytes()
    path = tmp_path_factory.mktemp("cut") / "x.zip"
    path.write_bytes(raw[: int(cut * len(raw))])
    with pytest.raises(DataError):
        open_bundle(path)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_flipped_byte_never_gives_other_content(good, tmp_path_factory, data):
    raw = bytearray(good.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("flip") / "x.zip"
    path.write_bytes(raw)
    try:
        opened = open_bundle(path)
    except DataError:
        return
    assert opened.files == open_bundle(good).files
