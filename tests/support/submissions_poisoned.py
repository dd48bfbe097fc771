"""Hand-ins that once stopped the whole class: each must become its own student's result, and no more."""

from __future__ import annotations

import json
import os
from pathlib import Path

__all__ = ["write_poisoned"]


def _notebook(*cells: str) -> str:
    rows = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells]
    return json.dumps({"cells": rows, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def _written(folder: Path, right: str) -> dict[str, str]:
    """Write them; what each student's result must be: "full", "none" or "ungraded"."""
    half = chr(92) + "ud800"  # half a character, as an escape
    end = "rounds = None\n"
    files: dict[str, tuple[str | bytes, str]] = {
        "half_printed.py": (f"{right}\nprint('{half}')\n", "full"),
        "half_raised.py": (f"raise ValueError('{half} \\x1b[2J')\n{end}", "none"),
        "half_named.py": (f"class E(Exception): pass\nE.__name__ = '{half}'\nraise E\n{end}", "none"),
        "terms.ipynb": (_notebook(right, f"x = 1\ny = {' + '.join(['x'] * 900)}"), "full"),
        "terms_needed.ipynb": (_notebook(f"x = 1\ny = {' + '.join(['x'] * 900)}", f"{right}    y\n"), "full"),
        "literal.ipynb": (_notebook(right, "x = " + "1" * 5000), "full"),
        "half_cell.ipynb": (_notebook(right, "x = '\ud800'"), "full"),
        "no_python.ipynb": (_notebook("def rounds(group:\n", "np.sort?"), "none"),
        "no_notebook.ipynb": ("{", "none"),
        "deep_notebook.ipynb": ("[" * 200_000, "none"),
        "deep.py": ("rounds = " + "(" * 5000 + "\n", "none"),
        "minus.py": (f"rounds = {'-' * 50_000}1\n", "none"),
        "latin.py": (right.encode() + b"# caf\xe9\n", "none"),
        "zero.py": ("\0" * 10, "none"),
        "empty.py": ("", "none"),
        "huge.py": (right + "#" * (2 << 20), "none"),
        "exits.py": (f"import sys\nsys.exit(0)\n{end}", "none"),
        "odd\nada,sort,graded,99.py": (right, "full"),
        "odd\x1b[2Jname.py": (right, "full"),
        "=cmd.py": (right, "full"),
        "-" + "n" * 240 + ".py": (right, "full"),
        "<script>alert(1)<" + "\u2215" + "script>.py": (right, "full"),
    }
    wanted = {}
    for name, (content, result) in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        wanted[Path(name).stem] = result
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.py")).write_text(right)
    wanted["caf\udce9"] = "full"
    (folder / "two.py").write_text(right)
    (folder / "two.ipynb").write_text(_notebook(right))
    wanted["two"] = "ungraded"
    for name in (
        "mac/sort.py",
        "mac/._sort.py",
        "mac/.DS_Store",
        "pair/a.py",
        "pair/b.py",
        "._half_printed.py",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"\0\5\x16\7" if "._" in name else right.encode())
    return {**wanted, "mac": "full", "pair": "ungraded"}


def write_poisoned(folder: Path, right: str) -> dict[str, str]:
    """Write them beside whatever is there; each student's file name, and "full", "none" or "ungraded".

    Parameters
    ----------
    folder : Path
    right : str
        A solution of the assignment that gets full points.
    """
    return _written(folder, right)
