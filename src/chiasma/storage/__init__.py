"""A run on disk: draws and checkpoints in a Zarr store, and reopening it."""
