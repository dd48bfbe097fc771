"""sorting algorithms: each file is one."""
