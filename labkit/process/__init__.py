"""Child processes: started with a private folder, watched, and ended for sure with all their descendants."""

__all__: list[str] = []
