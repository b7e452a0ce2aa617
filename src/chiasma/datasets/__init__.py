"""Simulated examples with a known truth."""
