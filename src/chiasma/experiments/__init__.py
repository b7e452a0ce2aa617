"""The paper's experiments as settings and calls; the algorithms live elsewhere."""
