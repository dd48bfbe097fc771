"""The submissions to the assignments that are taught one by one, as scripts and as notebooks.

python -m tests.support.submissions_taught FOLDER writes them, a folder for each assignment.
"""

from __future__ import annotations

import sys
from collections.abc import Set
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.support.course import ASSIGNMENTS
from tests.support.submissions_right import STYLES

__all__ = ["CORPORA", "TAUGHT", "Taught", "write_taught"]

#: assignment -> its submissions
CORPORA: dict[str, ModuleType] = {
    name: import_module(f"tests.support.submissions_{name}")
    for name in (
        "deadlock",
        "julia",
        "torus_broadcast",
        "scaling_bug",
        "compaction",
        "summa",
        "bfs",
        "list_ranking",
        "cg",
        "work_stealing",
    )
}


@dataclass(frozen=True)
class Taught:
    """A submission with what grading must find.

    Attributes
    ----------
    name : str
        The same for the script and the notebook.
    file_name, assignment, content : str
    kind : str
        "right", "wrong", or "hostile": only the sandbox may run it.
    missed : frozenset of str
        The checks that it must not pass.
    by_luck : frozenset of str
        Checks that it may pass or miss, as the draw of the ranks and costs falls; all others it must pass.
    """

    name: str
    file_name: str
    assignment: str
    content: str
    kind: str
    missed: frozenset[str]
    by_luck: frozenset[str]

    def wronged(self, missed: Set[str]) -> tuple[set[str], set[str]]:
        """Return the checks that were passed and must not be, and those that were missed and must not be."""
        return set(self.missed - missed), set(missed - self.missed - self.by_luck)


def _both(
    name: str, assignment: str, source: str, kind: str, missed: tuple[str, ...], nth: int
) -> list[Taught]:
    """A script and a notebook; of right ones each in another of the styles in which students hand in."""
    function = ASSIGNMENTS[assignment].function
    scripts = [made for ending, made in STYLES.values() if ending == ".py"]
    notebooks = [made for ending, made in STYLES.values() if ending == ".ipynb"]
    luck = frozenset(getattr(CORPORA[assignment], "BY_LUCK", {}).get(name, ()))
    as_script = scripts[nth % len(scripts)](source, function) if kind == "right" else source
    as_notebook = notebooks[nth % len(notebooks) if kind == "right" else 0](source, function)
    return [
        Taught(name, f"{kind}_{name}{suffix}{ending}", assignment, content, kind, frozenset(missed), luck)
        for suffix, ending, content in (("_script", ".py", as_script), ("_notebook", ".ipynb", as_notebook))
    ]


def _every() -> list[Taught]:
    found = []
    for assignment, corpus in CORPORA.items():
        for nth, (name, right) in enumerate(corpus.RIGHT.items()):
            source, missed = right if isinstance(right, tuple) else (right, ())
            found += _both(name, assignment, source, "right", missed, nth)
        for nth, (name, (source, missed)) in enumerate(corpus.WRONG.items()):
            kind = "hostile" if name in corpus.HOSTILE else "wrong"
            found += _both(name, assignment, source, kind, missed, nth)
    return found


#: every one of them
TAUGHT = _every()


def write_taught(folder: Path, chosen: list[Taught] | None = None) -> dict[str, Path]:
    """Write them, each under its assignment; the folder of each assignment."""
    folders = {}
    for one in TAUGHT if chosen is None else chosen:
        target = folders[one.assignment] = folder / one.assignment
        target.mkdir(parents=True, exist_ok=True)
        (target / one.file_name).write_text(one.content, encoding="utf-8", newline="")
    return folders


if __name__ == "__main__":
    print(f"{len(TAUGHT)} submissions: {', '.join(map(str, write_taught(Path(sys.argv[1])).values()))}")
