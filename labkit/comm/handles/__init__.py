"""MPI's objects other than communicators: datatypes, groups, operators, requests, errors."""

__all__: list[str] = []
