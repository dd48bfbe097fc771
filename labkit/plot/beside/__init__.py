"""Figures of what was predicted beside what was measured."""
