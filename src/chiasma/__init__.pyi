"""The public names and where they live; imported when they are first used."""

from . import channels as channels
from . import datasets as datasets
from . import exact as exact
from . import plots as plots
from . import tumour as tumour
from .cohort import cohort as cohort
from .errors import BudgetExceeded, ChiasmaError, ImpossibleData, InvalidInput, StoreError
from .models.additive import Additive
from .models.arguments import Argument
from .models.chains import Markov, Sticky, Switch, Switches
from .models.density import BlockModes, Density
from .models.emissions import (
    Custom,
    Gaussian,
    IntegratedDepth,
    NegativeBinomial,
    Poisson,
    StudentT,
    Table,
    register_emission,
)
from .models.factorial import FactorialHMM, log_joint
from .models.observations import Observations
from .models.offsets import Covariates, Periodic, Smooth
from .models.priors import Beta, Dirichlet, DirichletRows, Gamma, HalfNormal, LogNormal, Normal, Prior, Uniform
from .models.rows import Row
from .results import diagnostics as diagnostics
from .results.findings import Finding
from .results.ladder_stats import Evidence
from .results.model_checks import check
from .results.optima import Optima, Optimum
from .results.posterior import Posterior
from .sampling import calibration as calibration
from .sampling.comparison import Comparison, compare
from .sampling.exchanges import AugmentedCrossover, MosaicCrossover, RandomCrossover, Swap
from .sampling.ladder import Ladder
from .sampling.optimise import optimise, optimize
from .sampling.sampler import sample
from .sampling.updates import BlockGibbs, Collapsed, Compose, Exact, GaussianBlocks, HammingBall, Jumps, RowGibbs
from .sampling.vector_exchanges import BalancedCrossover
from .sampling.vector_moves import Hamiltonian, LocallyInformed, Stretch
from .sampling.vector_updates import RandomWalk, SiteGibbs
from .storage.opening import StoreCheck, check_store, open_posterior

__version__: str

__all__ = [
    "Additive",
    "Argument",
    "AugmentedCrossover",
    "BalancedCrossover",
    "Beta",
    "BlockGibbs",
    "BlockModes",
    "BudgetExceeded",
    "ChiasmaError",
    "Collapsed",
    "Comparison",
    "Compose",
    "Covariates",
    "Custom",
    "Density",
    "Dirichlet",
    "DirichletRows",
    "Evidence",
    "Exact",
    "FactorialHMM",
    "Finding",
    "Gamma",
    "Gaussian",
    "GaussianBlocks",
    "HalfNormal",
    "Hamiltonian",
    "HammingBall",
    "ImpossibleData",
    "IntegratedDepth",
    "InvalidInput",
    "Jumps",
    "Ladder",
    "LocallyInformed",
    "LogNormal",
    "Markov",
    "MosaicCrossover",
    "NegativeBinomial",
    "Normal",
    "Observations",
    "Optima",
    "Optimum",
    "Periodic",
    "Poisson",
    "Posterior",
    "Prior",
    "RandomCrossover",
    "RandomWalk",
    "Row",
    "RowGibbs",
    "SiteGibbs",
    "Smooth",
    "Sticky",
    "StoreCheck",
    "StoreError",
    "Stretch",
    "StudentT",
    "Swap",
    "Switch",
    "Switches",
    "Table",
    "Uniform",
    "calibration",
    "channels",
    "check",
    "check_store",
    "cohort",
    "compare",
    "datasets",
    "diagnostics",
    "exact",
    "log_joint",
    "open_posterior",
    "optimise",
    "optimize",
    "plots",
    "register_emission",
    "sample",
    "tumour",
]
