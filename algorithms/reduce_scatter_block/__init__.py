"""reduce_scatter_block algorithms: each file is one."""
