"""Scaling expectations in tests: the pytest plugin and the baselines it keeps."""
