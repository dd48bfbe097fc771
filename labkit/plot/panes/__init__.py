"""The three panes of a report: metrics, call paths, machine."""
