"""scatter algorithms: each file is one."""
