"""Collectives on real MPI: labkit's algorithms over messages of MPI."""
