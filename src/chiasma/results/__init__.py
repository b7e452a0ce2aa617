"""Results of a run: the posterior, its summary, convergence diagnostics, evidence, segments and explanations."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"diagnostics"})
