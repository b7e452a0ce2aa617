"""The public names and where they live; imported when they are first used."""

from . import calibration as calibration
from . import diagnostics as diagnostics
from . import exact as exact
from .comparison import Comparison, compare
from .errors import BudgetExceeded, ChiasmaError, ImpossibleData, InvalidInput, StoreError
from .evidence import Evidence
from .exchange import AugmentedCrossover, MosaicCrossover, RandomCrossover, Swap
from .ladder import Ladder
from .models.chains import BinaryChains
from .models.density import BlockModes, Density
from .models.emissions import Custom, Gaussian, IntegratedDepth, NegativeBinomial, Poisson, StudentT, Table
from .models.factorial import FactorialHMM, log_joint
from .models.observations import Observations
from .models.prior import Prior
from .models.priors import Beta, Dirichlet, Gamma, HalfNormal, LogNormal, Normal, Uniform
from .posterior import Posterior
from .records import open_posterior
from .sampler import sample
from .updates import BlockGibbs, Compose, Exact, HammingBall, RowGibbs
from .vector_updates import RandomWalk, SiteGibbs

__version__: str

__all__ = [
    "AugmentedCrossover",
    "Beta",
    "BinaryChains",
    "BlockGibbs",
    "BlockModes",
    "BudgetExceeded",
    "ChiasmaError",
    "Comparison",
    "Compose",
    "Custom",
    "Density",
    "Dirichlet",
    "Evidence",
    "Exact",
    "FactorialHMM",
    "Gamma",
    "Gaussian",
    "HalfNormal",
    "HammingBall",
    "ImpossibleData",
    "IntegratedDepth",
    "InvalidInput",
    "Ladder",
    "LogNormal",
    "MosaicCrossover",
    "NegativeBinomial",
    "Normal",
    "Observations",
    "Poisson",
    "Posterior",
    "Prior",
    "RandomCrossover",
    "RandomWalk",
    "RowGibbs",
    "SiteGibbs",
    "StoreError",
    "StudentT",
    "Swap",
    "Table",
    "Uniform",
    "calibration",
    "compare",
    "diagnostics",
    "exact",
    "log_joint",
    "open_posterior",
    "sample",
]
