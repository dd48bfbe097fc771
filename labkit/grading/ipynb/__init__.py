"""Notebooks that are handed in, and those that are handed out: read, understood, made."""
