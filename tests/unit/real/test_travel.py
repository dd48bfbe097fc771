"""Which modules travel by value."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import types

import numpy as np

import labkit
from labkit.real.travel import _is_homeless, pack_program, unwritten_sources


def test_installed_modules_go_by_name():
    for module in (np, json, sys, labkit, subprocess, np.linalg):
        assert not _is_homeless(module.__name__, module)


def test_module_made_in_memory_goes_by_value():
    module = types.ModuleType("made_in_memory")
    assert _is_homeless("made_in_memory", module)


def test_module_of_a_file_off_the_path_goes_by_value_and_on_it_by_name(tmp_path, monkeypatch):
    import importlib.util

    path = tmp_path / "off_the_path.py"
    path.write_text("def f(comm):\n    return 1\n")
    spec = importlib.util.spec_from_file_location("off_the_path", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "off_the_path", module)
    assert _is_homeless("off_the_path", module)
    assert b"off_the_path.py" in pack_program(module.f, (), {})  # its code is inside
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not _is_homeless("off_the_path", module)
    assert b"off_the_path.py" not in pack_program(module.f, (), {})


def test_registry_of_cloudpickle_is_left_as_it_was():
    import cloudpickle

    before = cloudpickle.list_registry_pickle_by_value()
    program, args, kwargs = pickle.loads(pack_program(lambda comm: 3, (1,), {"a": 2}))
    assert (program(None), args, kwargs) == (3, (1,), {"a": 2})
    assert cloudpickle.list_registry_pickle_by_value() == before


def test_only_sources_without_a_file_are_sent():
    import linecache

    linecache.getline(__file__, 1)
    linecache.cache["<cell>"] = (4, None, ["a\n", "b\n"], "<cell>")
    try:
        sources = unwritten_sources()
        assert sources["<cell>"] == "a\nb\n"
        assert __file__ not in sources
    finally:
        del linecache.cache["<cell>"]
