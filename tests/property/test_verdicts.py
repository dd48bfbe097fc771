"""Whatever is expected and measured: a verdict that agrees with its own test, or a sentence."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit.errors import LabkitError
from labkit.scaling import judge, limit
from labkit.study import load
from tests.support.refusals import raises_code

QUICK = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
RANKS = np.array([4.0, 8, 16, 32, 64, 128, 256, 512])
PIECES = st.sampled_from(
    [
        "p",
        "n",
        "log",
        "log2",
        "(",
        ")",
        "^",
        "**",
        "2",
        "0.5",
        "1/3",
        "+",
        "-",
        "*",
        "/",
        " ",
        "O(",
        "sqrt",
        "1",
        "constant",
        "linear",
        "q",
        "√",
        "²",
        "1e9",
        "1e922",
        ".",
        "ε",
        "\n",
        "p log p",
        "2^p",
        "n/p",
    ]
)
EXPECTATIONS = st.one_of(st.lists(PIECES, max_size=9).map("".join), st.text(max_size=14))
NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64)
KNOWN = st.sampled_from(["1", "log p", "sqrt(p)", "p", "p log p", "p^2", "1/p", "p^2 log p + p", "2^p"])


@QUICK
@given(EXPECTATIONS)
def test_any_expectation_gives_a_verdict_or_a_sentence(text: str) -> None:
    try:
        verdict = judge(RANKS, 3 + RANKS * np.log2(RANKS), text)
    except LabkitError as error:
        said = str(error)
    else:
        said = verdict.reading
        assert said.endswith(".")
    assert len(said) > 20


@QUICK
@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=24), KNOWN)
def test_any_data_give_a_verdict_or_a_sentence(rows: list[tuple[float, float]], expectation: str) -> None:
    try:
        verdict = judge([x for x, _ in rows], [y for _, y in rows], expectation)
    except LabkitError as error:
        said = str(error)
    else:
        said = verdict.reading
        assert said.endswith(".")
        assert str(verdict)
        assert verdict.to_dict()["match"] == verdict.match
    assert len(said) > 20


@QUICK
@given(
    st.lists(st.floats(1e-6, 1e6), min_size=8, max_size=8),
    st.sampled_from([0.0, 0.05]),
    st.integers(0, 999),
    KNOWN,
)
def test_a_verdict_never_contradicts_its_own_test(
    shape: list[float], noise: float, seed: int, expectation: str
) -> None:
    rng = np.random.default_rng(seed)
    y = np.cumsum(shape)[:, None] * (1 + noise * np.clip(rng.standard_normal((8, 4)), -3, 3))
    verdict = judge(RANKS, y, expectation)
    assert verdict.model is not None
    if verdict.match in ("exact", "approximate") and not (verdict.seen or verdict.exception):
        assert verdict.model.term in {m.term for m in verdict.plausible}
    if verdict.match == "exact":
        assert verdict.is_plausible
        assert not verdict.seen
    if verdict.match == "none":
        assert not verdict.is_plausible
    rises = y.mean(axis=1)[-1] / y.mean(axis=1)[0] - 1
    if rises > 0.2 and verdict.match != "undecided":
        is_qualified = verdict.notes or verdict.seen or verdict.exception
        assert "it is constant" not in verdict.reading or is_qualified
        assert noise or "it falls" not in verdict.reading  # noise may fall from one value to the next
    assert str(limit(verdict.model, 3.0)).endswith(".")


#: pieces of the files that `labkit judge` reads: CSV, Extra-P's text, JSON and JSON lines
FILE_PIECES = st.sampled_from(
    [
        "p,time",
        "p,time_s\n",
        "2,1\n",
        "4,2\n",
        "8,4\n",
        "16,8\n",
        "32,16\n",
        "64,nan\n",
        "1e400,3\n",
        "8,inf\n",
        "PARAMETER p\n",
        "POINTS 2 4 8 16 32\n",
        "POINTS ( 2 ) ( 4 )\n",
        "METRIC time\n",
        "REGION main\n",
        "DATA 1 2\n",
        "DATA\n",
        "DATA x\n",
        '{"params":{"p":2},"metric":"time","value":3}\n',
        '{"params":{"p":',
        "[1, 2",
        "{}",
        "[]",
        '{"parameters":["p"],"measurements":{}}',
        "null",
        "\x00",
        "\ufeff",
        ";",
        "\t",
        '"',
        "9" * 400,
        "-",
        "\n",
        "ε,√\n",
    ]
)
FILES = st.one_of(st.lists(FILE_PIECES, max_size=14).map("".join), st.text(max_size=60))


@QUICK
@given(
    st.one_of(FILES.map(str.encode), st.binary(max_size=40)),
    KNOWN,
    st.sampled_from(["csv", "txt", "json", "jsonl", "study"]),
)
def test_any_file_gives_a_verdict_or_a_sentence(content: bytes, expectation: str, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data.{kind}"
        path.write_bytes(content)
        try:
            verdict = load(path).expect(expectation)
        except LabkitError as error:
            said = str(error)
            assert len(said) < 1000
        else:
            said = verdict.reading
            assert said.endswith(".")
        assert len(said) > 20


MONSTERS = [
    "1e922^p",
    "1e999999999^p",
    "2^(1e922 p)",
    "2^(1e300 p)",
    "1e200*1e200 p",
    "sqrt(1e200*1e200)",
    "(1e200 p + 1)^2.5",
    "log^1e9 (p^2)",
    "p^0.5.5",
    "1.5.5",
    "nan",
    "inf",
    "p^nan",
    "9" * 119,
    "9" * 400,
    "p^" + "9" * 100,
    "p^1e-400",
    "1e999 p",
    "p^-inf",
    "2^(p/0)",
    "((((p",
    "x" * 5000,
]
ODD: list[object] = [None, 5, 1.5, float("nan"), b"p", {}, list(range(100_000)), 10**5000]


@pytest.mark.parametrize("text", [*MONSTERS, *ODD], ids=lambda v: str(type(v).__name__))
def test_monsters_are_refused_in_short_sentences(text: object) -> None:
    if text in ("nan", "inf"):  # no parameters of that name
        with raises_code(LabkitError, "malformed-expression"):
            judge(RANKS, RANKS, text, parameter="p")  # type: ignore[arg-type]
        return
    try:
        said = judge(RANKS, RANKS, text).reading  # type: ignore[arg-type]
    except LabkitError as error:
        said = str(error)
    assert len(said) < 600
    if isinstance(text, str) and "5.5" in text:
        assert "one decimal point" in said


@pytest.mark.parametrize(
    "options",
    [
        {"tolerance": "x"},
        {"tolerance": float("nan")},
        {"tolerance": -1},
        {"level": 5},
        {"given": 5},
        {"parameter": 5},
        {"given": {"n": 10**400}},
        {"given": {"n": "9" * 400}},
        {"space": "x" * 9999},
        {"aggregate": "x" * 9999},
        {"parameter": "x" * 9999},
        {"deviation": "nan"},
        {"deviation": "p^0.5.5"},
    ],
    ids=str,
)
def test_odd_options_are_refused_in_short_sentences(options: dict[str, object]) -> None:
    with pytest.raises(LabkitError) as caught:
        judge(RANKS, RANKS, "n p", **options)  # type: ignore[arg-type]
    assert 20 < len(str(caught.value)) < 600


@pytest.mark.parametrize("x", [[10**400] * 6, [1e308, 1e307, 1e306, 1e305, 1e304, 1e303], ["x" * 5000] * 6])
def test_numbers_beyond_all_bounds_are_refused(x: list[object]) -> None:
    for pair in ((x, RANKS[:6]), (RANKS[:6], x)):
        with pytest.raises(LabkitError) as caught:
            judge(*pair, "p")  # type: ignore[arg-type]
        assert len(str(caught.value)) < 300
