"""Bundles: a study in one zip with all that others need to check it, and the check."""

from labkit.bundle.verifying import Verification, verify
from labkit.bundle.writing import Bundle, write_bundle

__all__ = ["Bundle", "Verification", "verify", "write_bundle"]
