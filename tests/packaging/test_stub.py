"""The committed stub says what the compiled module holds."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_stub_is_fresh() -> None:
    spec = importlib.util.spec_from_file_location("make_stub", ROOT / "kernels/bindings/make_stub.py")
    assert spec is not None
    assert spec.loader is not None
    make_stub = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_stub)
    committed = names((ROOT / "labkit/_kernels.pyi").read_text())
    assert committed == names(make_stub.stub()), (
        "run python kernels/bindings/make_stub.py after a change of the bindings"
    )


def names(text: str) -> set[str]:
    """Every function, class, method and property of a stub, with its parameters; not its layout."""
    found = set()
    for node in ast.parse(text).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = node.name + "." if isinstance(node, ast.ClassDef) else ""
        found.add(prefix)
        for item in inner:
            if isinstance(item, ast.FunctionDef):
                parameters = [arg.arg for arg in (*item.args.args, *item.args.kwonlyargs)]
                found.add(f"{prefix}{item.name}({', '.join(parameters)})")
    return found
