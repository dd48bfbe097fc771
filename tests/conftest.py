"""What all tests share: examples, files that are not read, interrupts that arrive, no search for garbage."""

from __future__ import annotations

import functools
import gc
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# The time of a busy machine gates no test, and what fails here fails everywhere; `make fuzz` draws anew.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("drawn", deadline=None)
settings.load_profile(os.environ.get("LABKIT_EXAMPLES", "same"))

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: seconds since 1970: what has not begun then is skipped and named. `.ci/run` sets it, whose time ends.
_DEADLINE = float(os.environ.get("LABKIT_TEST_DEADLINE", "inf"))

#: what ``-m`` is in the Makefile: marks that a test has, or has not
_SUITE = re.compile(r"(not )?\w+( and (not )?\w+)*")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that say that none of their tests is of the suite: imports are most of a collection.

    A file has tests with a mark only if the mark's name is in it, or in its folder's conftest.py; it has no
    others if its ``pytestmark`` says so, or that conftest.
    """
    suite, here = config.getoption("markexpr", ""), config.invocation_params.dir
    if not collection_path.name.startswith("test_") or not _SUITE.fullmatch(suite):
        return None
    if collection_path in [(here / word.partition("::")[0]).resolve() for word in config.args]:
        return None  # asked for by name
    own, shared = _text(collection_path), _text(collection_path.with_name("conftest.py"))
    for word in suite.split(" and "):
        mark = f"mark.{word.removeprefix('not ')}"
        if not word.startswith("not "):
            if mark not in own + shared:
                return True
        elif f"add_marker(pytest.{mark})" in shared or re.search(rf"(?m)^pytestmark = .*{mark}\b", own):
            return True
    return None


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Leave out what would begin after the deadline."""
    if time.time() > _DEADLINE:
        pytest.skip("not begun before LABKIT_TEST_DEADLINE: this machine is slow or busy")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Freeze what collection makes: going through half a million objects again is most of a small test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
