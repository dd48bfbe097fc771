"""Topologies, a file each: the folder's listing says which there are (`labkit.machines.spec.kinds`)."""

__all__: list[str] = []
