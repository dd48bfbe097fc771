"""allreduce algorithms: each file is one."""
