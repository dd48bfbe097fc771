"""Exercises of the course's notebooks: ``lk.check("matches", answer)``."""

from labkit.jupyter.exercises.ask import EXERCISES, check

__all__ = ["EXERCISES", "check"]
