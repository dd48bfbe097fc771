"""alltoallv algorithms: each file is one."""
