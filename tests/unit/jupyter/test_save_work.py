"""Saving one's work: what is packed and what is not, the link, the button, and unpacking again."""

from __future__ import annotations

import os
import re
import stat
import time
import zipfile

import pytest

import labkit as lk
from labkit.errors import DataError
from labkit.jupyter import save_work as saving
from labkit.jupyter.save_work import read_archive
from labkit.real.host_limits import PLACE_VARIABLE
from tests.support.refusals import raises_code


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Give a folder to be in, as a notebook is."""
    folder = tmp_path / "course"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv(PLACE_VARIABLE, "none")
    monkeypatch.delenv(saving.START_VARIABLE, raising=False)
    return folder


def put(folder, name, text="x", age_s=0.0):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    moment = time.time() - age_s
    os.utime(path, (moment, moment))
    return path


def names(saved):
    with zipfile.ZipFile(saved.path) as archive:
        return archive.namelist()


def test_notebooks_and_files_come_back_byte_for_byte(work):
    put(work, "a.ipynb", "{}")
    put(work, "data/räume.csv", "p,t\n1,2\n")
    saved = lk.save_work()
    assert names(saved) == ["a.ipynb", "data/räume.csv"] == saved.files
    with zipfile.ZipFile(saved.path) as archive:
        assert archive.read("data/räume.csv").decode() == "p,t\n1,2\n"
        assert archive.testzip() is None


def test_only_what_was_changed_in_the_session(work, monkeypatch):
    put(work, "course.ipynb", age_s=500)
    put(work, "mine.ipynb", age_s=5)
    monkeypatch.setenv(saving.START_VARIABLE, str(int(time.time()) - 100))
    assert lk.save_work().files == ["mine.ipynb"]
    assert lk.save_work(everything=True).files == ["course.ipynb", "mine.ipynb"]


def test_what_tools_make_and_what_is_hidden_is_passed_over(work):
    for name in (
        ".ipynb_checkpoints/a-checkpoint.ipynb",
        "__pycache__/a.pyc",
        ".env",
        ".git/config",
        ".ssh/id_rsa",
        "labkit-work-20260101-101010.zip",
        "labkit.egg-info/PKG-INFO",
    ):
        put(work, name)
    put(work, "a.py")
    saved = lk.save_work()
    assert saved.files == ["a.py"]
    assert saved.left_out == []
    assert lk.save_work().files == ["a.py"]  # not the archive before


@pytest.mark.parametrize(
    "name",
    [
        "id_rsa",
        "deploy.pem",
        "Server.KEY",
        "credentials.json",
        "github_token",
        "token.txt",
        "jpserver-7.json",
    ],
)
def test_what_is_named_like_a_secret_stays_and_is_listed(work, name):
    put(work, name)
    put(work, "a.py")
    saved = lk.save_work()
    assert names(saved) == ["a.py"]
    assert saved.left_out == [(name, "its name is that of a key, a password or a token")]
    assert name in repr(saved)


def test_links_pipes_and_large_files_stay_and_are_listed(work, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "FILE_LIMIT_BYTES", 1_000_000)
    monkeypatch.setattr(saving, "LIMIT_BYTES", 1_500_000)
    put(tmp_path, "secret", "outside")
    put(tmp_path, "folder/inside", "outside")
    (work / "link").symlink_to(tmp_path / "secret")
    (work / "linked").symlink_to(tmp_path / "folder")
    os.mkfifo(work / "pipe")  # reading it would hang
    put(work, "b1.bin", "x" * 900_000)
    put(work, "b2.bin", "x" * 900_000)
    put(work, "large.bin", "x" * 1_100_000)
    put(work, "z.py")
    saved = lk.save_work()
    assert names(saved) == ["b1.bin", "z.py"]
    left = dict(saved.left_out)
    assert set(left) == {"link", "linked", "pipe", "b2.bin", "large.bin"}
    assert "together" in left["b2.bin"]
    assert "more than 1 MB" in left["large.bin"]


def test_a_file_from_before_1980_and_one_without_rights_do_not_stop_it(work):
    put(work, "old.txt", age_s=time.time() - 1000)
    saved = lk.save_work()
    assert names(saved) == ["old.txt"]


@pytest.mark.parametrize("since", [None, "later"])
def test_an_empty_folder_is_a_sentence(work, monkeypatch, since):
    if since:
        put(work, "a.py", age_s=100)
        monkeypatch.setenv(saving.START_VARIABLE, str(time.time()))
    with raises_code(DataError, "missing-file"):
        lk.save_work()
    assert [path.name for path in work.iterdir() if path.suffix == ".zip"] == []


def test_bad_folders_are_sentences(work):
    put(work, "a.py")
    with raises_code(DataError, "wrong-kind-of-file"):
        lk.save_work("nowhere")
    with raises_code(DataError, "unwritable-file"):
        lk.save_work(to="nowhere")


def test_the_link_leads_to_the_archive_and_is_safe(work):
    put(work, "<b>.py")
    html = lk.save_work()._repr_html_()
    address = re.search(r'href="([^"]+)"', html)[1]
    assert (work / address).is_file()
    assert "download=" in html
    assert "<b>.py" not in html
    assert "&lt;b&gt;.py" in html


def test_a_notebook_saved_long_ago_is_said_to_be(work):
    put(work, "old.ipynb", age_s=300)
    assert "Press Ctrl-S" in repr(lk.save_work())
    put(work, "old.ipynb", age_s=0)
    assert "Press Ctrl-S" not in repr(lk.save_work())


def test_on_binder_it_says_how_long_there_is(work, monkeypatch):
    put(work, "a.py")
    assert "10 minutes" not in repr(lk.save_work())
    monkeypatch.setenv(PLACE_VARIABLE, "binder")
    saved = lk.save_work()
    assert "10 minutes without activity" in repr(saved)
    assert "10 minutes without activity" in saved._repr_html_()


def test_the_button_packs_anew_at_every_click(work):
    pytest.importorskip("anywidget")
    put(work, "a.py")
    put(work, "b.bin", "".join(map(chr, range(32, 120))) * 4000)
    button, sent = lk.save_button(), []
    button.send = lambda content, buffers=(): sent.append((content, buffers))

    def click():
        """Play the browser's part: ask for the archive until all of it is there."""
        sent.clear()
        button._handle_custom_msg({"kind": "pack"}, [])
        about, got = sent[-1][0], b""
        while about["kind"] == "packed" and len(got) < about["size"]:
            button._handle_custom_msg({"kind": "part", "offset": len(got)}, [])
            assert sent[-1][0] == {"kind": "part", "name": about["name"]}
            got += sent[-1][1][0]
        return about, got

    about, got = click()
    assert "2 files" in about["text"]
    assert (work / about["name"]).read_bytes() == got
    put(work, "c.py")
    assert "3 files" in click()[0]["text"]
    for path in work.iterdir():
        path.unlink()
    about, _ = click()
    assert about["kind"] == "failed"
    assert "save your notebook first" in about["text"]


def test_large_archives_travel_in_parts_that_the_server_lets_pass(work):
    module = pytest.importorskip("labkit.jupyter.save_button", reason="anywidget is missing")
    (work / "noise.bin").write_bytes(os.urandom(3 * module.PART_BYTES))
    button, sent = lk.save_button(), []
    button.send = lambda content, buffers=(): sent.append((content, buffers))
    button._handle_custom_msg({"kind": "pack"}, [])
    size = sent[0][0]["size"]
    for offset in range(0, size, module.PART_BYTES):
        button._handle_custom_msg({"kind": "part", "offset": offset}, [])
    assert max(len(buffers[0]) for _, buffers in sent[1:]) <= module.PART_BYTES
    assert sum(len(buffers[0]) for _, buffers in sent[1:]) == size


def test_restoring_brings_files_back_and_overwrites_nothing(work, tmp_path):
    put(work, "same.py", "1")
    put(work, "mine.ipynb", "old")
    put(work, "sub/gone.py", "2")
    saved = lk.save_work()
    put(work, "mine.ipynb", "new")
    (work / "sub/gone.py").unlink()
    restored = lk.restore_work(saved.path)
    what = dict(restored.files)
    assert what["same.py"] == "the same already"
    assert what["sub/gone.py"] == "restored"
    assert (work / "sub/gone.py").read_text() == "2"
    assert (work / "mine.ipynb").read_text() == "new"
    beside = re.search(r"as (.*)$", what["mine.ipynb"])[1]
    assert (work / beside).read_text() == "old"
    assert "restored" in restored._repr_html_()


def hostile(path, name, mode=0o644, text="x"):
    with zipfile.ZipFile(path, "w") as archive:
        about = zipfile.ZipInfo(name)
        about.external_attr = mode << 16
        archive.writestr(about, text)
    return path


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("../out.py", 0o644),
        ("/tmp/out.py", 0o644),
        ("a/../../out.py", 0o644),
        (".ssh/authorized_keys", 0o644),
        ("a/.bashrc", 0o644),
        ("link", stat.S_IFLNK | 0o777),
    ],
)
def test_an_archive_that_leads_elsewhere_is_refused_whole(work, tmp_path, name, mode):
    archive = hostile(tmp_path / "bad.zip", name, mode)
    with raises_code(DataError, "unsafe-archive", "save_work"):
        lk.restore_work(archive)
    assert list(work.iterdir()) == []


def test_an_archive_that_leads_through_a_link_in_the_folder_is_refused(work, tmp_path):
    (work / "sub").symlink_to(tmp_path)
    with raises_code(DataError, "unsafe-archive"):
        lk.restore_work(hostile(tmp_path / "bad.zip", "sub/out.py"))


def test_bombs_and_what_is_no_archive_are_refused(work, tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", b"\0" * 3_000_000)
    with raises_code(DataError, "too-large", "1 MB"):
        read_archive(tmp_path / "bomb.zip", work, 1_000_000)
    put(work, "no.zip", "hello")
    with raises_code(DataError, "malformed-file"):
        lk.restore_work("no.zip")
    with raises_code(DataError, "missing-file"):
        lk.restore_work("none.zip")
