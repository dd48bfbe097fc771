"""The course's assignments: all of them by name, and the modules that define them."""

from __future__ import annotations

import sys
from types import ModuleType

from labkit.grading.assignment import assignment_names, find_assignment

ASSIGNMENTS = {name: find_assignment(name) for name in assignment_names()}


def module_of(name: str) -> ModuleType:
    """The module of an assignment's file."""
    return sys.modules[f"labkit.course.assignments.{name}"]
