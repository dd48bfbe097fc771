"""Files that labkit has written and somebody has changed are refused in one sentence, not believed."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from tests.fuzz import run

KEPT = run.loaded(run.HERE / "kept_files.py")
BASELINE = {"growth": "p", "model": "2 p", "parameter": "p", "values": {"4": 1.0}, "made_with": {}}
RUN = {"calls": [1], "scale": 1.0, "ns": "eJxjYIAAAAAIAAE="}


def _baseline(**changed: object) -> bytes:
    return b"b" + json.dumps({**BASELINE, **changed}).encode()


def _recorded(**changed: object) -> bytes:
    runs = {"ranks=1 on=star": {**RUN, **changed}}
    return b"r" + json.dumps({"format": "labkit computation 1", "runs": runs}).encode()


def _damaged(method: int) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        archive.writestr("a.txt", bytes(range(256)) * 4)
    data = bytearray(made.getvalue())
    data[60:90] = bytes(30)
    return b"w" + bytes(data)


def _renamed(name: bytes) -> bytes:
    """Return an archive in which the name of a file has become another one of the same length or shorter."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a" * 8, "x")
    return b"w" + made.getvalue().replace(b"a" * 8, name.ljust(8, b"\0"))


REFUSED = {
    "baseline: a list of values": _baseline(values=[1, 2]),
    "baseline: no values": _baseline(values={}),
    "baseline: a value that is no number": _baseline(values={"4": float("nan")}),
    "baseline: a value without end": _baseline(values={"4": float("inf")}),
    "baseline: a text for a number": _baseline(values={"4": "1.0"}),
    "baseline: true for a number": _baseline(values={"4": True}),
    "baseline: at a name": _baseline(values={"four": 1.0}),
    "baseline: growth is a number": _baseline(growth=3),
    "baseline: another key": _baseline(others=3),
    "baseline: a list": b"b[]",
    "baseline: nested": b"b" + b"[" * 100_000,
    "recorded: nested": b"r" + b"[" * 100_000,
    "recorded: no scale": _recorded(scale=float("nan")),
    "recorded: a scale without end": _recorded(scale=float("inf")),
    "recorded: a negative scale": _recorded(scale=-1),
    "recorded: true for a scale": _recorded(scale=True),
    "recorded: a text for a scale": _recorded(scale="1"),
    "recorded: half a call": _recorded(calls=[1.5]),
    "recorded: calls without end": _recorded(calls=[float("inf")]),
    "recorded: digits for calls": _recorded(calls="1"),
    "recorded: a text": b'r{"format": "labkit computation 1", "runs": {"ranks=1 on=star": "x"}}',
    "archive: a damaged file": _damaged(zipfile.ZIP_DEFLATED),
    "archive: a damaged file, LZMA": _damaged(zipfile.ZIP_LZMA),
    "archive: a damaged file, BZ2": _damaged(zipfile.ZIP_BZIP2),
    "archive: a file without a name": _renamed(b""),
    "archive: above its folder": _renamed(b"../../ab"),
    "profile: a digit of another kind": "s[big]\nnodes = '²'\n".encode(),
    "profile: thousands of digits": b"s[big]\nnodes = '" + b"9" * 5000 + b"'\n",
}
#: texts in the place of measured times
TIMES = ["[]", "3", "null", '{"ring": null}', '{"ring": NaN}', '{"ring": -1}', '{"ring": "1"}', "[" * 100_000]


@pytest.mark.parametrize("content", REFUSED.values(), ids=REFUSED)
def test_changed_files_are_refused(content: bytes) -> None:
    assert KEPT.check(content) is False


@pytest.mark.parametrize("text", TIMES, ids=lambda text: text[:20])
def test_histories_without_times_are_refused(text: str) -> None:
    KEPT.check(b"h" + text.encode())  # whatever the two questions are answered with is a time


def test_the_files_themselves_are_read() -> None:
    assert KEPT.check(_baseline())
    assert KEPT.check(_recorded())
