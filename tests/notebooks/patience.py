"""A pytest plugin: nbval waits 5 s for the outputs of a cell that has ended, too short under load."""

from __future__ import annotations

WAIT_S = 120


def pytest_collection_modifyitems(items):
    for item in items:
        if hasattr(item, "output_timeout"):
            item.output_timeout = WAIT_S
