"""Print messages and docstrings of labkit chosen at random: ``python -m tests.docs.sentences SEED``.

They are read aloud now and then; a line marked with ``!`` contains an expression that labkit avoids.
"""

from __future__ import annotations

import ast
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
COUNT = 40
#: expressions that are not those of the field
AVOIDED = re.compile(
    r"\b(tells?|told|words? for|beside|mend(s|ed)?|so many|of (its|one's|their) own|machine room|hand-in"
    r"|by hand|at once|(is|are|as) none|as (it is|they are)|how often|bears|kin|on (the|one's) way)\b",
    re.IGNORECASE,
)
FIELD = re.compile(r"{.*?}")


def shown(node: ast.AST) -> str:
    """Return the text of a string, its fields in braces."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        fields = [
            "{" + ast.unparse(one.value) + "}" if isinstance(one, ast.FormattedValue) else shown(one)
            for one in node.values
        ]
        return "".join(fields)
    return ""


def sentences() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return messages (strings of several words outside docstrings) and docstrings, each with its place."""
    messages: list[tuple[str, str]] = []
    docstrings: list[tuple[str, str]] = []
    for path in sorted((ROOT / "labkit").rglob("*.py")):
        place, documented = str(path.relative_to(ROOT)), set()
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
                text := ast.get_docstring(node)
            ):
                docstrings.append((f"{place}:{getattr(node, 'lineno', 1)}", text.split("\n\n")[0]))
                documented.add(id(node.body[0].value))  # type: ignore[attr-defined]
        messages += _messages(tree, place, documented)
    return messages, docstrings


def _messages(tree: ast.Module, place: str, documented: set[int]) -> Iterator[tuple[str, str]]:
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if id(node) in documented:
            continue
        text = shown(node)
        if len(re.findall(r"[a-z]{2,}", text)) >= 5 and "<" not in text:
            yield f"{place}:{getattr(node, 'lineno', 1)}", text
        if not isinstance(node, ast.JoinedStr):
            waiting += ast.iter_child_nodes(node)


if __name__ == "__main__":
    draw = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    for kind, found in zip(("messages", "docstrings"), sentences(), strict=True):
        print(f"--- {COUNT} of {len(found):,} {kind}")
        for place, text in draw.sample(found, COUNT):
            print(f"{'!' if AVOIDED.search(FIELD.sub('', text)) else ' '} {place}: {' '.join(text.split())}")
        avoided = sum(bool(AVOIDED.search(FIELD.sub("", text))) for _, text in found)
        print(f"--- {avoided} of {len(found):,} {kind} contain an expression to avoid")
