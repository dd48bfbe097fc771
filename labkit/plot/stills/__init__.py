"""Pictures without a browser: what a figure looks like, drawn by matplotlib."""
