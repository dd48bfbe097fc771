"""The stored notebooks show every figure without a kernel, and in the dark theme."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
#: what a cell ends with that shows a figure
SHOWS = re.compile(r"(lk\.)?(plot|explore)\.\w+\(|.*\.(beside|plot)\(|plt\.show\(")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_figure_has_its_still_picture(path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    pictures = 0
    for cell in book.cells:
        if cell.cell_type != "code":
            continue
        shown = [one for one in cell.outputs if {"image/png", "image/svg+xml"} & {*one.get("data", ())}]
        pictures += len(shown)
        last = next((line for line in reversed(cell.source.splitlines()) if line[:1].strip(" )")), "")
        assert shown or not SHOWS.match(last), f"no stored picture: {last}"
        for one in shown:
            # an SVG file is shown where a notebook is trusted only, and a stored one is not
            assert {"image/png", "text/html"} & {*one.data}, f"a picture that is not shown at once: {last}"
            is_own = "image/png" in one.data and not one.data.get("text/plain", "").startswith("<Figure")
            assert not is_own or one.metadata.get("needs_background") == "light"
    assert pictures


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_picture_is_of_the_figure_that_its_text_names(path: Path) -> None:
    """Outputs are compared by their text: a picture must not be older than that."""
    image = pytest.importorskip("PIL.Image")
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            said = data.get("text/plain", "").partition("\n")[0]
            if "image/png" in data and said.startswith("Figure: "):
                with image.open(io.BytesIO(base64.b64decode(data["image/png"]))) as picture:
                    assert f"Figure: {picture.info['Title']}" == said
