"""chiasma: Bayesian inference in factorial hidden Markov models.

The public names are listed in __init__.pyi and imported when they are first used, so that `import chiasma` and the
command line's help are quick.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
