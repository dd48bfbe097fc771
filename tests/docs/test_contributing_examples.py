"""The examples of README.md, CONTRIBUTING.md and docs/developing: each works.

A fenced block whose first line is a comment with a path is a file; Python blocks without one are a program
that is run beside them, in an interpreter of its own. Files under ``algorithms/``, ``datasets/``,
``labkit/plot/`` and ``labkit/real/`` are found as if they lay in the checkout.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT_FOLDER = Path(__file__).parents[2]
DOCUMENTS = [
    *(TEXT_FOLDER / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((TEXT_FOLDER / "docs/developing").glob("*.md")),
]
TEXT = "".join(path.read_text() for path in DOCUMENTS)
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_FILE = re.compile(r"# ((?:\w+/)+[\w.]+)\n")

BEFORE = """\
import importlib
from pathlib import Path
import labkit.algorithms
import labkit.datasets
import labkit.plot
import labkit.real
for package, folder in (
    (labkit.algorithms, "algorithms"), (labkit.datasets, "datasets"), (labkit.real, "labkit/real"),
    (labkit.plot, "labkit/plot"),
):
    package.__path__ = [str(Path(folder).absolute()), *package.__path__]
for folder in Path("algorithms").absolute().glob("*"):
    problem = importlib.import_module(f"labkit.algorithms.{folder.name}")
    problem.__path__ = [str(folder), *problem.__path__]
"""


def sections() -> dict[str, str]:
    """Every section that has an example, by its title."""
    parts = re.split(r"^## (.*)\n", TEXT, flags=re.MULTILINE)[1:]
    return {title: text for title, text in zip(parts[::2], parts[1::2], strict=True) if "```python" in text}


def test_the_promised_examples_are_there() -> None:
    machines = {"Add a machine", "Add a topology", "Add a collective", "Add a selector"}
    assert machines | {"Add a wait state", "Add a figure or an explorer", "Your first change"} <= set(
        sections()
    )


def test_the_way_of_a_run_is_drawn_as_the_files_call_each_other() -> None:
    text = re.search(r"^## From `lk.run` to the engine$.*?^## ", TEXT, re.MULTILINE | re.DOTALL)
    assert text is not None
    lines = re.findall(r"^ {4,6}\S.*(?:->|=>).*$", text[0], re.MULTILINE)
    assert len(lines) == 6
    package = TEXT_FOLDER / "labkit"
    front = (package / "launch/run.py").read_text()
    for line in lines:
        steps = re.findall(r"(->|=>)? *([\w/]+\.py)", line)
        for (_, here), (arrow, there) in itertools.pairwise(steps):
            module = "labkit." + there.removesuffix(".py").replace("/", ".")
            source = (package / here).read_text()
            is_imported = (
                f"from {module} import" in source or f"from {module.rpartition('.')[0]} import" in source
            )
            # another process is started by a command line, which may stand in a file beside
            beside = "".join(path.read_text() for path in (package / here).parent.glob("*.py"))
            assert is_imported if arrow == "->" else module in beside, (here, there)
        names = [name for _, name in steps]
        assert len(set(names)) == len(names)
        if names[0].endswith("machine.py"):
            assert f"from labkit.{names[0].removesuffix('.py').replace('/', '.')} import" in front


@pytest.mark.slow
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
    script.write_text(BEFORE + "\n".join(programs))
    ended = subprocess.run(
        [sys.executable, "-P", "-W", "error", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
