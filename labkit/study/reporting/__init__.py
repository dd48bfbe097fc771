"""Reporting: the twelve rules for benchmarks, and a paper's paragraph on how a study was measured."""

from labkit.study.reporting.methods import methods_of
from labkit.study.reporting.rules import Finding, RuleReport, check_rules

__all__ = ["Finding", "RuleReport", "check_rules", "methods_of"]
