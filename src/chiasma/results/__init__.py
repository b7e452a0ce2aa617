"""What a run says: the posterior, its summary, convergence, evidence, segments and explanations."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"diagnostics"})
