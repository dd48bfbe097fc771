"""The heat map of a study over two of its parameters."""

from __future__ import annotations

from typing import Any

import pytest

import labkit as lk
from labkit.errors import DataError
from labkit.plot import matrix
from labkit.study import Study
from tests.support.refusals import raises_code


def program(comm: Any, sort: str = "a", input: str = "x") -> None:
    lk.compute(seconds=(1 + (sort == "b")) * (1 + 2 * (input == "y")) * comm.size * 1e-6)


@pytest.fixture(scope="module")
def study() -> Study:
    return lk.sweep(program, ranks=[1, 2], on="star", sort=["a", "b"], input=["x", "y"], repeats=1)


def test_a_cell_is_compared_with_the_least_of_its_row(study: Study) -> None:
    drawn = matrix(study, "input", "sort", where={"ranks": 2})
    source = next(one.data for one in drawn.layout.select({"type": _source()}) if "ratio" in one.data)
    cells = {
        (row, column): (ratio, text)
        for row, column, ratio, text in zip(
            source["row"], source["column"], source["ratio"], source["text"], strict=True
        )
    }
    assert {key: ratio for key, (ratio, _) in cells.items()} == {
        ("x", "a"): 1.0, ("x", "b"): 2.0, ("y", "a"): 1.0, ("y", "b"): 2.0,
    }  # fmt: skip
    assert cells["y", "b"][1].startswith("12")
    assert "a has the least in each row; b up to 2" in drawn.reading


def _source() -> type:
    from bokeh.models import ColumnDataSource

    return ColumnDataSource


@pytest.mark.parametrize(
    ("names", "options", "code", "facts"),
    [
        (("inputs", "sort"), {}, "unknown-name", ["'inputs'", "'input'"]),
        (("input", "sort", "time"), {}, "unknown-name", ["'time'"]),
        (("input", "sort"), {}, "invalid-value", ["ranks", "1, 2"]),
        (("input", "sort"), {"where": {"ranks": 7}}, "invalid-value", []),
    ],
)
def test_bad_input_is_refused(
    study: Study, names: Any, options: dict[str, Any], code: str, facts: list[str]
) -> None:
    with raises_code(DataError, code, *facts):
        matrix(study, *names, **options)


def test_many_long_names_are_slanted_within_the_page() -> None:
    names = [f"a_sort_with_a_long_name_{k}" for k in range(8)]
    few, many = (
        matrix(lk.sweep(program, 2, "star", sort=sorts, input=["x", "y"], repeats=1), "input", "sort")
        for sorts in (names[:2], names)
    )
    assert few.layout.width < many.layout.width <= 840
    assert [one.layout.xaxis[0].major_label_orientation for one in (few, many)] == ["horizontal", 0.6]
