"""gatherv algorithms: each file is one."""
