"""Figures of a posterior, drawn by matplotlib; `chiasma.plots` has the public ones."""

from chiasma.extras import extra

with extra("plots"):
    import matplotlib  # noqa: F401
