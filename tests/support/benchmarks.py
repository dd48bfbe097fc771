"""Modules of benchmarks/ as tests use them: their inputs, and peers that they write anew."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

__all__ = ["load_benchmark"]


def load_benchmark(path: str) -> ModuleType:
    """Return the module of a file in benchmarks/, such as ``verdicts/machines.py``."""
    file = Path(__file__).parents[2] / "benchmarks" / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
