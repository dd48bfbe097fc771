"""Algorithms under study: one folder a problem, one file an algorithm."""
