"""A pytest plugin: nbval waits 5 s for the outputs of a cell that has ended, too short under load.

How a run goes on, which cells show that run for long, is no output to compare.
"""

from __future__ import annotations

import os

os.environ["LABKIT_PROGRESS"] = "off"

WAIT_S = 120


def pytest_collection_modifyitems(items):
    for item in items:
        if hasattr(item, "output_timeout"):
            item.output_timeout = WAIT_S
