"""chiasma: Bayesian inference in factorial hidden Markov models."""

from chiasma import diagnostics, exact
from chiasma.errors import BudgetExceeded, ChiasmaError, ImpossibleData, InvalidInput
from chiasma.evidence import Evidence
from chiasma.exchange import AugmentedCrossover, MosaicCrossover, RandomCrossover, Swap
from chiasma.ladder import Ladder
from chiasma.models.chains import BinaryChains
from chiasma.models.density import BlockModes, Density
from chiasma.models.emissions import (
    Custom,
    Gaussian,
    IntegratedDepth,
    NegativeBinomial,
    Poisson,
    StudentT,
    Table,
)
from chiasma.models.factorial import FactorialHMM, log_joint
from chiasma.models.observations import Observations
from chiasma.posterior import Posterior
from chiasma.sampler import sample
from chiasma.updates import BlockGibbs, Compose, Exact, HammingBall, RowGibbs
from chiasma.vector_updates import RandomWalk, SiteGibbs

__version__ = "0.1.0"
__all__ = [
    "AugmentedCrossover",
    "BinaryChains",
    "BlockGibbs",
    "BlockModes",
    "BudgetExceeded",
    "ChiasmaError",
    "Compose",
    "Custom",
    "Density",
    "Evidence",
    "Exact",
    "FactorialHMM",
    "Gaussian",
    "HammingBall",
    "ImpossibleData",
    "IntegratedDepth",
    "InvalidInput",
    "Ladder",
    "MosaicCrossover",
    "NegativeBinomial",
    "Observations",
    "Poisson",
    "Posterior",
    "RandomCrossover",
    "RandomWalk",
    "RowGibbs",
    "SiteGibbs",
    "StudentT",
    "Swap",
    "Table",
    "diagnostics",
    "exact",
    "log_joint",
    "sample",
]
