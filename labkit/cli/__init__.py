"""The command line: ``labkit run | judge | demo | lab | doctor``.

Each command is a module of this package with two functions: ``configure(parser)`` adds its arguments, and
``execute(arguments)`` returns the exit code or raises `LabkitError` for what it refuses.
"""

from __future__ import annotations

from labkit.cli.main import main

__all__ = ["main"]
