"""What a run with ``check=True`` looks at: buffers in use, types of both ends, requests left alone."""
