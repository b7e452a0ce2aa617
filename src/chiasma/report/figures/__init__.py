"""Figures of a posterior, drawn by matplotlib; `chiasma.plots` has the public ones."""
