"""Rules of layout: one idea a file, no fragments, no mixin with one user, short functions, distinct names.

`not_yet.txt` lists what breaks a rule today, a line each. It only shrinks: nothing is added to it, and what
obeys is struck. ``python -m tests.packaging.test_rules`` prints the list as it would be now.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import labkit
from labkit import errors
from labkit.cli.main import COMMANDS
from labkit.errors import CODES, LabkitError
from tests.packaging.test_import_direction import MODULES, ROOT, home_of, imports, tree_of

STORED = Path(__file__).with_name("not_yet.txt")
#: lines of a file, files of a folder, lines of a function without its docstring
MOST_LINES, MOST_FILES, LONGEST_FUNCTION = 800, 40, 50
#: a shorter module needs two importers
FRAGMENT = 60
#: modules that are found by the listing of their folder
LISTED = r"labkit\.machines\.topologies\.\w+|labkit\.jupyter\.explorers\.\w+|labkit\.plot(\.\w+)?\.\w+_figure"
#: how many of them there are at most in labkit/; lower a number once it is met
MOST_OF = {
    r"\bAny\b": 1992,
    "fmt: skip": 60,
    "type: ignore": 108,
    r"^ +global ": 4,
}
#: imports inside functions; those that only a type checker reads are never carried out
MOST_LAZY = 369
FOR_TYPES = r"^if TYPE_CHECKING:\n(?:    .*\n|\n(?=    ))+"
#: files of labkit/
MOST_MODULES = 450
#: messages of labkit's errors that tests compare, and assertions on the text of an error that was caught
MOST_COMPARED, MOST_WORDED = 27, 25
CAUGHT = {"str(error)", "str(caught.value)", "str(refused.value)"}
#: modules of labkit that a run on a simulated machine loads, and a verdict on measurements
MOST_LOADED = {
    'lk.run(lambda comm: comm.allreduce(comm.rank), 8, on="star:8")': 150,
    'lk.Study.from_frame({"p": range(2, 9), "time": range(2, 9)}).expect("p")': 146,
}

PACKAGE = {name: path for name, path in MODULES.items() if ROOT / "labkit" in path.parents}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: tree_of(path) for name, path in PACKAGE.items()}


def sources() -> list[Path]:
    kernels = [p for ending in ("cpp", "hpp") for p in (ROOT / "kernels").rglob(f"*.{ending}")]
    return [*MODULES.values(), *(path for path in kernels if "third_party" not in path.parts)]


def long_files() -> Iterator[str]:
    for path in sources():
        if len(path.read_text().splitlines()) > MOST_LINES:
            yield str(path.relative_to(ROOT))


def crowded_folders() -> Iterator[str]:
    for folder, number in Counter(path.parent for path in sources()).items():
        if number > MOST_FILES:
            yield str(folder.relative_to(ROOT))


@cache
def importers() -> dict[str, set[str]]:
    found = defaultdict(set)
    for name in MODULES:
        for other in imports(name):
            found[other].add(name)
    return found


def started_by_name() -> set[str]:
    """Modules that a string names: programs of other processes, and what is loaded when it is used."""
    said = {text for path in PACKAGE.values() for text in re.findall(r'"([\w.]+)"', path.read_text())}
    named = {name for name, path in PACKAGE.items() if name in said or path.name in said}
    return named | {f"labkit.cli.{name}" for name in COMMANDS}


def fragments() -> Iterator[str]:
    free = started_by_name()
    for name, path in PACKAGE.items():
        is_special = path.stem.startswith("__") or name in free or re.fullmatch(LISTED, name)
        if not is_special and len(path.read_text().splitlines()) < FRAGMENT and len(importers()[name]) < 2:
            yield name


class Names(ast.NodeVisitor):
    """What a module calls its classes and imports, which classes derive from them, and which it uses."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.homes: dict[str, str] = {}
        self.derived: list[tuple[str, list[str]]] = []
        self.used: set[str] = set()
        self.visit(trees()[module])

    def where(self, name: str) -> tuple[str, str]:
        return self.homes.get(name, self.module), name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.homes |= {a.asname or a.name: home_of(str(node.module), a.name) for a in node.names}

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.derived.append((node.name, [ast.unparse(base).partition("[")[0] for base in node.bases]))
        for one in (*node.keywords, *node.decorator_list, *node.body):
            self.visit(one)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """A type is no use."""

    def visit_Name(self, node: ast.Name) -> None:
        self.used.add(node.id)


@cache
def names() -> dict[str, Names]:
    return {module: Names(module) for module in trees()}


def classes() -> dict[str, set[str]]:
    """Modules that define a class, by its name."""
    found = defaultdict(set)
    for module, known in names().items():
        for name, _ in known.derived:
            found[name].add(module)
    return found


def mixins_with_one_user() -> Iterator[str]:
    """Classes that are one of several bases of a single class, and are used by no other module."""
    known = {(module, name) for name, modules in classes().items() for module in modules}
    users = defaultdict(set)
    for module, one in names().items():
        for name, bases in one.derived:
            ours = {one.where(base) for base in bases} & known
            for base in ours:
                users[base].add((module, name, len(ours)))
    used = {one.where(name) for module, one in names().items() for name in one.used if name in one.homes}
    for base, found in users.items():
        if len(found) == 1 and next(iter(found))[2] > 1 and base not in used:
            yield f"{base[1]} of {next(iter(found))[1]}"


def long_functions() -> Iterator[str]:
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                if body and (body[-1].end_lineno or 0) - body[0].lineno >= LONGEST_FUNCTION:
                    yield f"{name}.{node.name}"


def names_of_several_classes() -> Iterator[str]:
    yield from (name for name, places in classes().items() if name[0] != "_" and len(places) > 1)


def functions_named_as_packages() -> Iterator[str]:
    """Public functions of labkit that a module or package of labkit shares its name with."""
    yield from (name for name in labkit.__all__ if name.islower() and f"labkit.{name}" in PACKAGE
                and name not in labkit._MODULES)  # fmt: skip


def without_all() -> Iterator[str]:
    for name, tree in trees().items():
        targets = {ast.unparse(t) for n in tree.body if isinstance(n, ast.Assign) for t in n.targets}
        targets |= {ast.unparse(n.target) for n in tree.body if isinstance(n, ast.AnnAssign)}
        defined = {getattr(n, "name", "_") for n in tree.body}
        if any(one[0] != "_" for one in defined) and "__all__" not in targets:
            yield name


RULES = {
    "long file": long_files,
    "crowded folder": crowded_folders,
    "fragment": fragments,
    "mixin": mixins_with_one_user,
    "long function": long_functions,
    "class name": names_of_several_classes,
    "package and function": functions_named_as_packages,
    "without __all__": without_all,
}


def test_rules_are_kept_by_all_but_the_list() -> None:
    """One test, since its rules share what they read."""
    found = {f"{rule}: {one}" for rule, find in RULES.items() for one in find()}
    stored = set(STORED.read_text().splitlines())
    assert sorted(found - stored) == [], "this breaks a rule of layout"
    assert sorted(stored - found) == [], f"this obeys by now: strike it from {STORED.name}"


@pytest.mark.parametrize("pattern", MOST_OF)
def test_exceptions_do_not_become_more(pattern: str) -> None:
    text = "\n".join(path.read_text() for path in PACKAGE.values())
    assert len(re.findall(pattern, text, re.MULTILINE)) <= MOST_OF[pattern]


def test_imports_inside_functions_do_not_become_more() -> None:
    text = "\n".join(re.sub(FOR_TYPES, "", path.read_text(), flags=re.MULTILINE) for path in PACKAGE.values())
    assert len(re.findall(r"^    +(from|import) \w", text, re.MULTILINE)) <= MOST_LAZY


def test_errors_have_codes_of_the_table_and_the_table_no_others() -> None:
    text = "\n".join(path.read_text() for path in MODULES.values())
    assert set(re.findall(r'\bcode(?:: str)? ?= ?"([\w-]+)"', text)) == set(CODES) - {"aborted"}


OURS = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, LabkitError)}


def test_messages_are_compared_in_few_places() -> None:
    """What an error is, is its code; that its message reads well is seen in a gallery of some."""
    calls = (
        node for path in (ROOT / "tests").rglob("*.py") for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and any(one.arg == "match" for one in node.keywords)
    )  # fmt: skip
    compared = [one for one in calls if one.args and OURS & {*re.findall(r"\w+", ast.unparse(one.args[0]))}]
    assert len(compared) <= MOST_COMPARED


def test_the_text_of_an_error_is_asserted_in_few_places() -> None:
    worded = [
        ast.unparse(call) for path in (ROOT / "tests").rglob("*.py") for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assert) for call in ast.walk(node)
        if isinstance(call, ast.Call) and ast.unparse(call) in CAUGHT
    ]  # fmt: skip
    assert len(worded) <= MOST_WORDED


def test_modules_do_not_become_more() -> None:
    assert len(PACKAGE) <= MOST_MODULES


@pytest.mark.parametrize("call", MOST_LOADED)
def test_what_is_loaded_does_not_become_more(call: str) -> None:
    count = 'print(sum(name.split(".")[0] == "labkit" for name in sys.modules))'
    program = f"import sys, labkit as lk\n{call}\n{count}"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(found.stdout) <= MOST_LOADED[call]


if __name__ == "__main__":
    print("\n".join(f"{rule}: {one}" for rule, find in RULES.items() for one in sorted(set(find()))))
