"""Real machines: MPI on this host, ipyparallel engines, batch jobs of Slurm."""

__all__: list[str] = []
