"""scatterv algorithms: each file is one."""
