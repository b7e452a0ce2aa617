"""chiasma: Bayesian inference in factorial hidden Markov models, sums of hidden switches.

>>> import chiasma as ch
>>> model = ch.FactorialHMM(rows=ch.Switches(enter=0.2, leave=0.2), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
>>> posterior = ch.sample(model, [0.1, 0.9, 3.1], seed=1, progress=False)
>>> posterior.marginals().values.round().tolist()
[[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]

A model has rows (`Switches`, or a list of `Row`) and an emission such as `Gaussian`. Parameters are numbers, or priors
such as `HalfNormal`, which are learned. `sample` draws from the posterior, `optimise` finds its maxima, `compare`
compares models, and `exact` has evidence, marginals, best paths and gradients. Applications are `tumour`, `channels`
and `cohort`; `plots`, `diagnostics` and `datasets` help with all of them.
"""

import sys

import lazy_loader

__version__ = "0.1.0"

# The public names are listed in __init__.pyi and imported when they are first used: `import chiasma` is quick.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name not in __all__:
        # Python suggests a name that is close.
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])
    return _load(name)
