"""allgatherv algorithms: each file is one."""
