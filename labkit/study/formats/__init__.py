"""Files and data frames: what other programs measured comes in, what labkit measured goes out."""

__all__: list[str] = []
