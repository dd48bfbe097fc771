"""Runs on real MPI of this host, or of the hosts of a file."""

__all__: list[str] = []
