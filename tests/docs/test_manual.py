"""The site: every notebook, document and public name, no warning, no link that leads nowhere; one search."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
import textwrap
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sphinx")
pytest.importorskip("numpydoc")
pytest.importorskip("myst_parser")

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"


@pytest.mark.slow
def test_the_site_has_every_page_and_every_name_and_one_search(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SITE / "build.py"), str(tmp_path)], capture_output=True,
        text=True, timeout=1200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    manual = tmp_path / "manual"
    import labkit
    from labkit.machines import named
    from labkit.machines.spec import kinds

    for name in labkit.__all__:
        if callable(getattr(labkit, name)):
            page = (manual / "api" / f"labkit.{name}.html").read_text("utf-8")
            assert f"labkit.{name}" in page
    words = (manual / "platforms.html").read_text("utf-8")
    for word in (*kinds(), *named.names(), "loopback_lat", "bb_bw", "routing"):
        assert word in words, word
    from labkit.trace.counters import EVENTS
    from labkit.trace.waiting.kinds import KINDS

    metrics = (manual / "metrics.html").read_text("utf-8")
    for word in (*(kind.name for kind in KINDS), *EVENTS, "critical_path", "delay_cost"):
        assert word in metrics, word
    contents = (tmp_path / "index.html").read_text("utf-8")
    written = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "docs").rglob("*.md")]
    for path in written:
        page = path.relative_to(ROOT).with_suffix(".html").as_posix()
        assert f'href="{page}"' in contents, page
    assert not list(tmp_path.rglob("bokeh*.js"))  # stored outputs need no script
    assert (SITE / "search.js").read_text("utf-8") in (tmp_path / "_static" / "language_data.js").read_text(
        "utf-8"
    )
    index = (tmp_path / "searchindex.js").read_text("utf-8")
    found = json.loads(re.search(r"Search\.setIndex\((.*)\)\s*$", index, re.DOTALL)[1])
    assert {"bisect", "goal", "fenc"} <= {*found["terms"]}
    pages = [
        found["docnames"].index(name) for name in ("notebooks/04_messages_and_deadlocks", "docs/syllabus")
    ]
    known = {"terms": found["terms"]["deadlock"], "titleterms": found["titleterms"]["deadlock"]}
    hits = {page for some in known.values() for page in (some if isinstance(some, list) else [some])}
    assert {*pages} <= hits


@pytest.mark.parametrize("on", ["star", pytest.param("mpi", marks=pytest.mark.mpi)])
def test_every_metric_of_a_study_is_described(monkeypatch, on):
    import labkit as lk
    from labkit.algorithms.sorting.sample_sort import sample_sort

    def program(comm):
        with lk.phase("sort"):
            sample_sort(comm, np.arange(100) * 7 % 100)
        comm.sendrecv(1, 1 - comm.rank)

    monkeypatch.syspath_prepend(str(SITE))
    described = {
        one for names, _, _ in importlib.import_module("metrics_page").METRICS for one in names.split(", ")
    }
    how = {"compute": "measured"} if on == "star" else {}
    study = lk.sweep(program, [2], on=on, repeats=2, progress=False, **how)
    assert {*study.metrics} <= described
    assert "comparisons" in study.metrics


def examples_of(module: str) -> list[str]:
    """Return the examples in a module's docstring, each without its indentation."""
    text = inspect.getdoc(importlib.import_module(module)) or ""
    blocks = re.findall(r"::\n\n((?:    .*\n?|\n(?=    ))+)", f"{text}\n")
    return [textwrap.dedent(one).strip() + "\n" for one in blocks]


def test_the_examples_of_formats_can_be_read(tmp_path):
    import labkit as lk

    tables = examples_of("labkit.study.formats.reader")
    points = {}
    for number, table in enumerate(tables):
        path = tmp_path / f"table{number}"
        path.write_text(table)
        study = lk.load(path)
        points[number] = study.data.groupby(study.parameters[0])["value"].count().tolist()
    assert list(points.values()) == [[1, 1], [1, 1], [2, 2, 2], [1, 1]]
    for module in ("labkit.trace.formats.ti_writer", "labkit.trace.formats.ti_writer"):
        (trace,) = examples_of(module)
        (tmp_path / "trace").write_text(trace)
        assert lk.replay(tmp_path / "trace", "star:2").makespan_s > 0
    (machine,) = examples_of("labkit.machines.named")
    assert lk.platform(tomllib.loads(machine)["spec"]).hosts == 128
    (rules,) = examples_of("labkit.selector.rules")
    (tmp_path / "rules.toml").write_text(rules)
    run = lk.run(
        lambda comm: comm.Allreduce(np.ones(9), np.ones(9)), 64, "star", coll=str(tmp_path / "rules.toml")
    )
    assert "ring" in run.collectives.values()


def test_the_files_in_a_saved_study_and_in_a_bundle_are_those_that_the_manual_names(tmp_path):
    import labkit as lk
    from tests.support.healthy import shift

    study = lk.sweep(shift, [2, 3], progress=False)
    for path, module in (
        (study.save(tmp_path / "a.study"), "labkit.study.store"),
        (study.bundle(tmp_path / "a.zip", notebook=False).path, "labkit.study.bundle.writer"),
    ):
        (named,) = examples_of(module)
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                assert f"{name.split('/')[0]}/" in named if "/" in name else name in named, name


def test_links_that_lead_nowhere_are_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SITE))
    broken_links = importlib.import_module("links").broken_links
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">1</a><a href="b.html#nowhere">2</a><a href="c.html">3</a>'
        '<a href="https://example.org">4</a><script src="https://example.org/x.js"></script><img src="#">'
    )
    (tmp_path / "b.html").write_text('<p id="there">x</p>')
    (tmp_path / "s.css").write_text("@import url(//fonts.example.org/x.css);")
    said = broken_links(tmp_path)
    assert said == [
        "a.html points to b.html#nowhere: no such place in that page",
        "a.html points to c.html, which is not there",
        "a.html fetches https://example.org/x.js",
        "s.css fetches //fonts.example.org/x.css",
    ]
