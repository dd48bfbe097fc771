"""exscan algorithms: each file is one."""
