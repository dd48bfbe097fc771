"""Runs notebooks and stores their outputs as the tests compare them: ``python tests/notebooks/refresh.py [FILE ...]``.

What is the same on every computer stays in the file. Of cells tagged ``nbval-ignore-output`` only the still
pictures are stored: no real times, nothing of this host. A notebook in which a cell fails, or in
which an output names this host's time or place, is left as it was.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
IGNORED = {"nbval-ignore-output", "nbval-skip"}
#: what no stored output may hold: widgets' ids, addresses, this host's folders
FOREIGN = re.compile(r"widget-view|0x[0-9a-f]{8,}|/tmp/|/home/|/root/|ipykernel_")
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def stills(output: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Return an output as its still picture alone; nothing where it has none."""
    data = output.get("data", {})
    if "image/png" not in data:
        return []
    kept = {kind: data[kind] for kind in ("image/png", "text/plain") if kind in data}
    return [nbformat.v4.new_output("display_data", kept, metadata=how_shown(output))]


def how_shown(output: nbformat.NotebookNode) -> dict[str, object]:
    """Return what an output says of its picture: the size, and what it is drawn on."""
    said = output.get("metadata", {})
    return {name: said[name] for name in ("image/png", "needs_background") if said.get(name)}


def refresh(path: Path) -> list[str]:
    """Run one notebook and store it; return what is wrong with it."""
    book = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(path.parent)}}
    NotebookClient(book, timeout=300, resources=place, coalesce_streams=True).execute()
    wrong = []
    count = 0
    for cell in book.cells:
        cell.metadata = {"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {}
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        if IGNORED & set(cell.metadata.get("tags", ())):
            cell.outputs = [still for output in cell.outputs for still in stills(output)]
        found = FOREIGN.search(str(cell.outputs))
        if found:
            wrong.append(
                f"{path.name}, cell {count}: its output holds {found[0]!r}; tag it nbval-ignore-output"
            )
        for output in cell.outputs:
            if output.output_type == "stream":
                output.pop("metadata", None)
            else:
                output.update(metadata=how_shown(output))
            if "execution_count" in output:
                output.execution_count = count
    book.metadata = nbformat.from_dict(METADATA)
    if not wrong:
        nbformat.validate(book)
        nbformat.write(book, path)
    return wrong


def main(names: list[str]) -> int:
    """Refresh some notebooks, or all; return the exit code."""
    os.environ["BOKEH_RESOURCES"] = "inline"
    os.environ["MATPLOTLIBRC"] = str(FOLDER.parent / "labkit/cli/jupyter_config/matplotlibrc")
    os.environ["LABKIT_PROGRESS"] = "off"  # what goes on while a cell runs is no output of it
    wrong = []
    for path in [Path(name) for name in names] or sorted(FOLDER.glob("*.ipynb")):
        print(path.name, flush=True)
        wrong += refresh(path)
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
