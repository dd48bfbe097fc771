"""bcast algorithms: each file is one."""
