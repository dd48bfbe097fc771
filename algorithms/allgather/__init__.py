"""allgather algorithms: each file is one."""
