"""alltoall algorithms: each file is one."""
