"""barrier algorithms: each file is one."""
