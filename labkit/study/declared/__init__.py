"""Studies declared in a file: checked, run where points are missing, judged."""

from labkit.study.declared.declaration import Declaration, Expected, read_declaration
from labkit.study.declared.judged import Judged, judge_all, paper_table, table_text, write_table
from labkit.study.declared.work import DeclaredWork, Results

__all__ = [
    "Declaration",
    "DeclaredWork",
    "Expected",
    "Judged",
    "Results",
    "judge_all",
    "paper_table",
    "read_declaration",
    "table_text",
    "write_table",
]
