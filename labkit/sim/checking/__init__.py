"""The checks of a run with ``check=True``: buffers in use, types of both ends, requests left alone."""
