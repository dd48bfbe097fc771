"""Inputs, real data, machine descriptions, calibrations and recorded measurements."""
