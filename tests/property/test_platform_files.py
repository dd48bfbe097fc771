"""Whatever is done to a platform file, it is read as a machine or refused with file, line and reason."""

from __future__ import annotations

import importlib.util
import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.machines.xml.reader import ELEMENTS, UNSUPPORTED

TARGET = Path(__file__).parents[1] / "fuzz" / "platform_files.py"
spec = importlib.util.spec_from_file_location("platform_files", TARGET)
assert spec is not None
assert spec.loader is not None
platform_files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(platform_files)
SEEDS: list[bytes] = platform_files.SEEDS

WORDS = sorted(
    {*ELEMENTS, *UNSUPPORTED, *(name for element in ELEMENTS.values() for name in element.attributes)}
    | {
        "Full",
        "Floyd",
        "None",
        "Star",
        "TORUS",
        "0-999999999",
        "1e308Gf",
        "-1",
        "0",
        "",
        "nan",
        "1e-400s",
        "999999999",
    }
    | {
        "SPLITDUPLEX",
        "UP",
        "\u00e9",
        "&#0;",
        "&x;",
        "]]>",
        "<!--",
        "x",
        "c-0",
        "1,1,1,1",
        "40;1",
        "2;2,2;1,2;1,1",
    }
)


def test_the_seeds_are_machines() -> None:
    assert all(platform_files.check(seed) for seed in SEEDS)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A seed with a few of its words, values, lines or bytes changed."""
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.integers(0, 4))
        if kind == 0:  # a value
            places = [m.span(1) for m in re.finditer(rb'"([^"]*)"', data)]
        elif kind == 1:  # a word of an element or attribute
            places = [m.span(1) for m in re.finditer(rb"[<\s/]([a-zA-Z_]+)[=\s>/]", data)]
        elif kind == 2:  # an element
            places = [m.span() for m in re.finditer(rb"<[^<>]*>", data)]
        elif kind == 3:  # a line
            places = [m.span() for m in re.finditer(rb"[^\n]*\n", data)]
        else:
            at = draw(st.integers(0, max(0, len(data) - 1)))
            places = [(at, draw(st.integers(at, min(len(data), at + 8))))]
        if not places:
            continue
        begin, end = draw(st.sampled_from(places))
        other, stop = draw(st.sampled_from(places))
        text = draw(
            st.one_of(
                st.sampled_from(WORDS).map(str.encode), st.binary(max_size=6), st.just(data[other:stop]),
                st.just(data[begin:end] * 2), st.just(b""),
            )
        )  # fmt: skip
        data = data[:begin] + text + data[end:]
    return data


@given(mutated())
@settings(max_examples=400, deadline=None)
def test_a_changed_file_is_a_machine_or_refused_with_its_place(data: bytes) -> None:
    platform_files.check(data)


@given(st.binary(max_size=300))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_refused(data: bytes) -> None:
    assert not platform_files.check(data)


@pytest.mark.parametrize(
    "text",
    [
        '<cluster id="c" prefix="" suffix="" radical="0-999999999" speed="1f" bw="1Bps" lat="0"/>',
        '<cluster id="c" prefix="" suffix="" radical="{many}" speed="1f" bw="1Bps" lat="0"/>',
        '<cluster id="c" prefix="" suffix="" radical="0-7" speed="1f" bw="1Bps" lat="0" topology="TORUS" '
        'topo_parameters="{many}"/>',
        '<zone id="z" routing="Cluster"><cabinet id="c" prefix="" suffix="" radical="0-999999999" speed="1f" '
        'bw="1Bps" lat="0"/></zone>',
        '<zone id="z" routing="Floyd">{zones}</zone>',
    ],
)  # fmt: skip
def test_huge_demands_are_refused_in_little_memory(text: str) -> None:
    many = ",".join(["0-999999999"] * 2000)
    zones = "".join(f'<zone id="{i}" routing="Floyd">' for i in range(5000))
    tracemalloc.start()
    try:
        filled = text.format(many=many, zones=zones)
        assert not platform_files.check(f'<platform version="4.1">{filled}</platform>'.encode())
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
