"""The exceptions that chiasma raises on purpose. Each message says what was expected, what it got, and the remedy."""


class ChiasmaError(Exception):
    """Base class of all exceptions of chiasma."""


class InvalidInput(ChiasmaError, ValueError):
    """An invalid argument."""


class ImpossibleData(ChiasmaError, ValueError):
    """An observation that no configuration of the model can produce."""


class BudgetExceeded(ChiasmaError, MemoryError):
    """A computation that would need more memory than it was given."""


class StoreError(ChiasmaError, OSError):
    """A run on disk that cannot be written, read or resumed."""
