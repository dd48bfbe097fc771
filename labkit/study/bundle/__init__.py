"""Bundles: a study in one zip with all that others need to check it, and the check."""

from labkit.study.bundle.verify_bundle import BundleVerification, verify
from labkit.study.bundle.writer import Bundle, write_bundle

__all__ = ["Bundle", "BundleVerification", "verify", "write_bundle"]
