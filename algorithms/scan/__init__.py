"""scan algorithms: each file is one."""
