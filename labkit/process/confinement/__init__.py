"""Walls around code that is not trusted: limits, Landlock, seccomp, namespaces."""

__all__: list[str] = []
