"""The examples of CONTRIBUTING.md: each is as small as its commit would be, and each works.

A fenced block whose first line is a comment with a path is a file; Python blocks without one are a program
that is run beside them, in an interpreter of its own. Files under ``algorithms/`` and ``datasets/`` are found
as if they lay in the checkout.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_FILE = re.compile(r"# ((?:\w+/)+[\w.]+)\n")

_BEFORE = """\
from pathlib import Path
import labkit.algorithms
import labkit.datasets
for package in (labkit.algorithms, labkit.datasets):
    package.__path__ = [str(Path(package.__name__.rpartition(".")[2]).absolute()), *package.__path__]
"""


def sections() -> dict[str, str]:
    """Every section that has an example, by its title."""
    parts = re.split(r"^## (.*)\n", TEXT, flags=re.MULTILINE)[1:]
    return {title: text for title, text in zip(parts[::2], parts[1::2], strict=True) if "```python" in text}


def test_the_promised_examples_are_there() -> None:
    assert {"Add a wait state", "Add a selector", "Add a collective"} <= set(sections())


@pytest.mark.parametrize("title", sections())
def test_example(title: str, tmp_path: Path) -> None:
    programs = []
    for language, text in _BLOCK.findall(sections()[title]):
        named = _FILE.match(text)
        if named:
            path = tmp_path / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif language == "python":
            programs.append(text)
    assert programs
    script = tmp_path / "example.py"
    script.write_text(_BEFORE + "\n".join(programs))
    ended = subprocess.run(
        [sys.executable, "-P", "-W", "error", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
