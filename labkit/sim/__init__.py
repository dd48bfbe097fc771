"""The simulated machine: ranks over the engine, isolated from each other, and how a run can end."""
