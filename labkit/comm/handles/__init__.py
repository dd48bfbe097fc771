"""MPI's objects beside communicators: datatypes, groups, operators, requests, errors."""

__all__: list[str] = []
