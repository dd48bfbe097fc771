"""Instruments of the tests."""
