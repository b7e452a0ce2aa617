"""Sampling: what is updated and exchanged, at which temperatures, for how long."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"calibration"})
