"""Seam."""
class BufferCollectives:
    pass
