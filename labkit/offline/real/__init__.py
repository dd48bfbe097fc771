"""Recording real runs: mpi4py's calls as a time-independent trace, the same lines as a simulated run's."""

__all__: list[str] = []
