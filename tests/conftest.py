"""What all tests share: a garbage collector that leaves the collected tests alone."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Freeze what collection makes: going through half a million objects again is most of a small test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
