"""Rich displays in a real kernel: every object shows HTML or a widget, and no cell fails."""

from __future__ import annotations

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("jupyter_bokeh")

CELLS = """
import numpy as np, pandas as pd, labkit as lk
p = np.array([4, 8, 16, 32, 64])
verdict = lk.judge(p, 3 + p * np.log2(p), "p log p", unit="s"); verdict
---
verdict.model
---
study = lk.Study(pd.DataFrame({"ranks": p, "metric": "makespan_s", "value": 3.0 + p})); study
---
study.table(total="p")
---
study.plot("p")
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("live", ["1", "0"], ids=["seen", "executed"])
def test_everything_shows_itself(live: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_LIVE", live)
    cells = [nbformat.v4.new_code_cell(text.strip()) for text in CELLS.split("---")]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=120).execute()
    shown = [cell.outputs[-1]["data"] for cell in book.cells]
    for data in shown[:4]:
        assert "<table" in data["text/html"]
        assert "text/plain" in data
    assert ("application/vnd.jupyter.widget-view+json" in shown[4]) == (live == "1")
    assert "image/png" in shown[4]
    assert "Exact match" in shown[4]["text/plain"]
