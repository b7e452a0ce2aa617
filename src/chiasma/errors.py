"""The exceptions that chiasma raises on purpose. Each message says what was expected, what came, and the remedy."""


class ChiasmaError(Exception):
    """Base of all of them."""


class InvalidInput(ChiasmaError, ValueError):
    """An argument that cannot be used as it is."""


class ImpossibleData(ChiasmaError, ValueError):
    """An observation that no configuration of the model can produce."""


class BudgetExceeded(ChiasmaError, MemoryError):
    """A computation that would need more memory than it was given."""


class StoreError(ChiasmaError, OSError):
    """A run on disk that cannot be written, read or resumed."""
