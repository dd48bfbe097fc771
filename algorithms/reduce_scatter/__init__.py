"""reduce_scatter algorithms: each file is one."""
