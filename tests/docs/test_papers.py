"""The page that compares labkit with the papers it follows: its commands, and its values of a Blue Gene/P."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text("utf-8")


@pytest.fixture
def papers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("papers")


def test_values_of_a_blue_gene_are_the_printed_ones(papers):
    (stated,) = re.findall(r"agree within (\d+) %", PAGE)
    rows = [*papers.messages(), *papers.small_collectives(4096)]
    compared = [row for row in rows if row.paper is not None]
    assert len(compared) >= 14
    for row in compared:
        assert row.ours == pytest.approx(row.paper, rel=int(stated) / 100), row.what


def test_every_row_names_a_command_of_its_section():
    for section in PAGE.split("\n## ")[1:]:
        commands = set(re.findall(r"^- `([^`]+)`:", section, re.MULTILINE))
        rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")][1:]
        assert rows
        for row in rows:
            assert len(row) == 5, row
            assert set(re.findall(r"`([^`]+)`", row[1])) <= commands, row
            assert row[1].strip(), row


def test_commands_of_the_page_are_those_that_labkit_reproduce_runs():
    papers = tomllib.loads((ROOT / "studies" / "papers.toml").read_text("utf-8"))
    run = {
        f"python {one}" for paper in papers.values() for one in [*paper["commands"], *paper.get("slow", [])]
    }
    heads = set(re.findall(r"^- `[^`]+`: `(python [^`]+)`", PAGE, re.MULTILINE))
    assert heads - run == {"python benchmarks/mpi_memory.py"}  # beside the declared studies of that paper
    assert run <= heads | {"python benchmarks/bounds.py 4096"}


def test_files_of_the_commands_exist():
    for path in re.findall(r"(?:python|pytest) ((?:benchmarks|tests)/[\w/.]+)", PAGE):
        assert (ROOT / path).exists(), path
