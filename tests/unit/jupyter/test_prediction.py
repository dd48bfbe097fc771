"""Predictions that a reader enters: read at once, drawn beside what came out."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError, ExpectationError
from tests.support.refusals import raises_code

P = np.array([4.0, 8, 16, 32, 64, 128])


def test_numbers_stand_beside_numbers():
    figure = lk.predict({"star": 3, "torus": 40}, "ms").beside({"torus": 10, "star": np.float64(3.1)})
    said = "1 of 2 predictions are within 10% of what was found; farthest off: torus "
    assert figure.reading == f"{said}(predicted 40 ms, found 10 ms)."
    assert "star: predicted 3 ms, found 3.1 ms" in figure.alt


@pytest.mark.parametrize(("mine", "word"), [(2, "too low"), (9, "too high"), (5.2, "about right")])
def test_a_single_number(mine, word):
    assert f"was {word}." in lk.predict(mine).beside(5).reading


def test_one_thing_is_told_in_the_singular():
    one = lk.predict({"segments": 1}, "segments")
    assert str(one) == "Predicted: segments: 1 segment."
    assert one.beside({"segments": 32}).reading.startswith("Predicted: 1 segment; found: 32 segments.")
    assert lk.predict(3, "rules").beside(1).reading.startswith("Predicted: 3 rules; found: 1 rule.")
    assert lk.predict(0, "rules").beside(1).reading.startswith("Predicted: 0 rules; found: 1 rule.")
    for unit in ("times as long", "times", "s", "%", "B", "loss", "bias"):
        assert str(lk.predict(1, unit)) == f"Predicted: 1 {unit}."


def test_a_growth_stands_beside_a_verdict_and_a_model():
    verdict = lk.judge(P, 3 * P, "p")
    steep = lk.predict("p^2").beside(verdict)
    assert "The predicted growth, p², ends 32 times above the measurement at p = 128." in steep.reading
    assert steep.has_words
    right = lk.predict("p").beside(lk.fit(P, 3 * P))
    assert "meets the measurement at p = 128." in right.reading
    labels = [item.label.value for item in right.layout.legend[0].items]
    assert "predicted: p" in labels


def test_wide_numbers_are_drawn_over_decades_and_zeros_are_not():
    assert (
        type(lk.predict({"a": 1, "b": 1000}).beside({"a": 2, "b": 900}).layout.x_scale).__name__ == "LogScale"
    )
    assert (
        type(lk.predict({"a": 0, "b": 1000}).beside({"a": 2, "b": 900}).layout.x_scale).__name__
        == "LinearScale"
    )


def test_an_axis_whose_ticks_have_the_unit_is_not_called_by_it():
    wide = lk.predict({"a": 1000, "b": 1000}, "B").beside({"a": 65536, "b": 900}).layout
    assert wide.xaxis[0].axis_label is None
    narrow = lk.predict({"a": 1}, "B").beside({"a": 2}).layout
    assert narrow.xaxis[0].axis_label == "B"


def test_what_is_counted_has_ticks_at_whole_numbers_only():
    rules = lk.predict({"met": 12, "violated": 0}, "rules").beside({"met": 9, "violated": 1}).layout
    assert rules.xaxis[0].ticker.min_interval == 1
    assert rules.xaxis[0].axis_label == "rules"
    lines = lk.predict({"ring": 1}).beside({"ring": 4}, label="line of the program").layout
    assert lines.xaxis[0].ticker.min_interval == 1
    assert lines.xaxis[0].axis_label == "line of the program"
    for mine, found, unit in ((2, 2.5, "times"), (1, 3, "s")):  # 2.5 times, or 1.5 s, there may be
        axis = lk.predict(mine, unit).beside(found).layout.xaxis[0]
        assert axis.ticker.min_interval == 0


def test_what_is_whole_but_for_rounding_is_whole_and_as_far_off_as_another():
    figure = lk.predict({"step": 2, "ms later": 0}).beside({"step": 7, "ms later": 5.000000000000025})
    assert "farthest off: step " in figure.reading
    assert figure.layout.xaxis[0].ticker.min_interval == 1


def test_a_prediction_has_a_still_picture():
    pytest.importorskip("matplotlib")
    bundle, _ = lk.predict({"a": 1, "b": 2}).beside({"a": 2, "b": 2})._repr_mimebundle_()
    assert bundle["image/png"]


def test_what_is_no_prediction_is_refused_with_a_sentence():
    with raises_code(ExpectationError, "malformed-expression"):
        lk.predict("p log q)")
    with raises_code(DataError, "missing-key"):
        lk.predict({})
    for wrong in (True, {"a": "three"}, {"a": float("nan")}, None):
        with raises_code(DataError, "wrong-type"):
            lk.predict(wrong)
    with raises_code(DataError, "invalid-value"):
        lk.predict({"star": 3}).beside({"torus": 3})
    with raises_code(DataError, "invalid-value"):
        lk.predict({"star": 3}).beside(lk.fit(P, 3 * P))


def test_an_open_prediction_reminds_and_shows_only_what_was_found():
    """Run All must not predict in place of the reader."""
    for open_one, found in (
        (lk.predict({"a": "?", "b": "?"}, "ms"), {"a": 2, "b": 900}),
        (lk.predict("?", "ms"), {"a": 2, "b": 900}),
        (lk.predict("?"), 5),
        (lk.predict(" ? "), lk.judge(P, 3 * P, "p")),
    ):
        assert str(open_one).startswith("Not predicted yet.")
        figure = open_one.beside(found)
        assert figure.reading.startswith("Not predicted yet")
        assert "nan" not in f"{figure.reading}{figure.alt}{open_one}"
        assert figure._repr_mimebundle_()[0]


def test_of_several_predictions_some_may_be_open():
    some = lk.predict({"a": "?", "b": 800}, "ms")
    assert str(some) == "Predicted: a: ?, b: 800 ms."
    reading = some.beside({"a": 2, "b": 810}).reading
    assert reading.startswith(
        "Predicted: 800 ms; found: 810 ms. The prediction was about right. Not predicted"
    )
    assert reading.endswith("of: a.")
    with raises_code(DataError, "wrong-type", "'nine'"):
        lk.predict({"a": "?", "b": "nine"})
    with raises_code(DataError, "wrong-type"):
        some.beside({"a": "?", "b": 1})


def test_numbers_with_units_of_their_own_are_compared_by_their_ratio():
    mine = lk.predict({"time [ms]": 90, "share [%]": 4})
    figure = mine.beside({"time [ms]": 100, "share [%]": 2})
    assert "farthest off: share [%] " in figure.reading
    assert "unit" in figure.layout.xaxis[0].axis_label
