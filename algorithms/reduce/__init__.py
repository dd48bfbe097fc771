"""reduce algorithms: each file is one."""
