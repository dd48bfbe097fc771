"""Runs on the MPI engines of an ipyparallel cluster."""

__all__: list[str] = []
