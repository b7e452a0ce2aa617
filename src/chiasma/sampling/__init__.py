"""MCMC sampling: updates, exchanges between replicas, the temperature ladder, and the sampler that runs them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"calibration"})
