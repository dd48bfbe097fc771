"""The start of a run: `labkit.run`, and its options on the command line and in the notebook."""

__all__: list[str] = []
