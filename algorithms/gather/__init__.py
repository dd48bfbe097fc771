"""gather algorithms: each file is one."""
