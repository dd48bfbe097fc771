"""Exercises on measuring."""

from labkit.jupyter.exercises.base import Exercise

__all__ = ["EXERCISES"]

EXERCISES: dict[str, Exercise] = {}
