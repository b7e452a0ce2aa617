"""The exceptions that chiasma raises on purpose. Each message says what was expected, what it got, and the remedy."""


class ChiasmaError(Exception):
    """Base class of all exceptions of chiasma: `except ch.ChiasmaError` catches them and no others.

    Examples
    --------
    >>> import chiasma as ch
    >>> issubclass(ch.StoreError, ch.ChiasmaError)
    True
    """


class InvalidInput(ChiasmaError, ValueError):
    """An invalid argument; also a ValueError.

    Examples
    --------
    >>> import chiasma as ch
    >>> try:
    ...     ch.HalfNormal(-1.0)
    ... except ch.InvalidInput as error:
    ...     print(error)
    sd of HalfNormal must be positive, got -1
    """


class ImpossibleData(ChiasmaError, ValueError):
    """An observation that no configuration of the model can produce; also a ValueError.

    Examples
    --------
    >>> import chiasma as ch
    >>> never = ch.Switches(enter=0.0, leave=0.1, initial=0.0)
    >>> model = ch.FactorialHMM(rows=never, emission=ch.Poisson([1.0]))
    >>> try:
    ...     ch.exact.log_evidence(model, [0.0, 3.0])
    ... except ch.ImpossibleData as error:
    ...     print(error)
    no path with positive probability reaches column 1: the transitions of probability zero exclude what was observed;
    raise enter or leave, correct known states, or set y there to NaN
    """


class BudgetExceeded(ChiasmaError, MemoryError):
    """A computation that would need more memory than it was given; also a MemoryError.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0] * 30))
    >>> try:
    ...     ch.exact.log_evidence(model, [0.0, 3.0])
    ... except ch.BudgetExceeded as error:
    ...     print(error)
    exact inference over 30 free rows and 2 sites needs about 57,344 MiB even with checkpoints, and the budget is
    512 MiB; raise memory=, fix rows, or sample with an ensemble (ch.sample)
    """


class StoreError(ChiasmaError, OSError):
    """A run on disk that cannot be written, read or resumed; also an OSError.

    Examples
    --------
    >>> import chiasma as ch
    >>> try:
    ...     ch.open_posterior("no-such-run.zarr")
    ... except ch.StoreError as error:
    ...     print(error)
    no-such-run.zarr is not a chiasma run: it has no zarr.json; check the path
    """
