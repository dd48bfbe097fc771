"""Collectives on real MPI: labkit's algorithms over messages, or the library's own, by its switches."""
