"""The pages about labkit's ideas, and on synthesis: their examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    pytest.param("one-program-two-machines", marks=pytest.mark.mpi),
    "large-simulations",
    "rows",
    "synthesis",
    "verdicts",
)


@pytest.mark.parametrize("name", PAGES)
def test_its_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{name}.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    scope = {"__name__": "page"}
    exec(compile("\n".join(blocks), f"{name}.md", "exec"), scope)
    if name == "rows":
        columns = set(re.findall(r"`(\w+)`", text.partition("| column |")[2].partition("##")[0]))
        assert {"program", "on", "model", "ranks", "repetition", "metric", "phase", "value"} <= columns
        assert columns <= {*scope["study"].data.columns}
