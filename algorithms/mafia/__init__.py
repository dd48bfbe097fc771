"""Subspace clustering: MAFIA, and the adaptive grid that it stands on."""
