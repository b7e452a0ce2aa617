"""What to do about a misfit, by the emission of the model and by what is learned already.

A remedy that a model cannot take is worse than none: counts have no sd, and what is learned need not be learned. A
remedy is spelled for Python, see `warnings`.
"""

from __future__ import annotations

from chiasma.results.misfit import Misfit

COUNTS = ("Poisson", "NegativeBinomial")
WIDER_PRIOR = "its prior keeps it there: give it a wider one"
NOT_ALIKE = "though it is learned: the noise is not alike everywhere, or has heavier tails, or"
MORE_THAN_POISSON = "emission=ch.NegativeBinomial(...)"
# Noise that no counts have, whatever their parameters are.
LESS_THAN_POISSON = (
    "counts vary less than Poisson counts only where they were averaged, scaled or filtered: take the counts as they "
    "were measured, or other noise (emission=ch.Gaussian(...))"
)


def for_outliers(found: Misfit) -> str:
    """Where single values are too improbable: heavier tails or more noise, or values that are wrong."""
    wrong = "mark values that are wrong as missing (NA)"
    more = ", ".join(filter(None, (_heavier_tails(found), _learn_noise(found))))
    return f"{more}, or {wrong}" if more else f"{wrong}, or ask whether there are enough rows"


def _heavier_tails(found: Misfit) -> str:
    if found.family in ("Gaussian", "IntegratedDepth"):
        return "allow outliers (emission=ch.StudentT(...))"
    if found.family == "StudentT":
        return "" if found.learns_tails else "allow more outliers (a smaller df, or learn it: df=ch.Gamma(...))"
    if found.family == "Poisson":
        return f"allow counts that vary more than Poisson counts do ({MORE_THAN_POISSON})"
    return "" if found.family else "give your emission heavier tails"


def _learn_noise(found: Misfit) -> str:
    return f"learn the noise ({_priors(found)})" if found.family and found.noise and not found.learns_noise else ""


def for_width(found: Misfit) -> str:
    """Where residuals are too wide or too narrow."""
    wide = found.spread > 1
    if found.family == "Poisson":
        learned = "and learn how much more (dispersion=ch.HalfNormal(...))"
        more = f"counts vary more than Poisson counts do: take {MORE_THAN_POISSON} {learned}"
        return more if wide else LESS_THAN_POISSON
    if found.learns_noise:
        if wide:
            return f"{NOT_ALIKE} {WIDER_PRIOR}"
        return WIDER_PRIOR if found.family not in COUNTS else f"{WIDER_PRIOR}; {LESS_THAN_POISSON}"
    if not found.noise:
        return f"give your emission {'more' if wide else 'less'} noise"
    if not found.family and len(found.noise) > 1:
        return f"change what sets the noise of your emission, of {' and '.join(found.noise)}, or learn it"
    them = "it" if len(found.noise) == 1 else "them"
    return f"change {' or '.join(found.noise)} or learn {them} ({_priors(found)})"


def _priors(found: Misfit) -> str:
    return ", ".join(f"{name}=ch.HalfNormal(...)" for name in found.noise)


def for_levels(found: Misfit, too_high: bool) -> str:
    """Where data lie far beyond the levels. too_high : above the highest one, otherwise below the lowest."""
    if found.family in COUNTS and not too_high:
        # No further row takes counts away.
        if found.learns_background:
            return "give the background a wider prior"
        return "lower the background, or what a fixed row adds, or learn it (background=ch.Gamma(...))"
    if found.learns_weights:
        weights = "give what the rows add a wider prior"
    elif found.row_weights:
        weights = "change what the rows add or give their weight a prior"
    else:
        weights = "change the weights or learn them (weights=ch.Gamma(...))"
    missing = "" if found.has_baseline else f"{baseline(found)}, "
    return f"add {missing}a row or a state, {'or ' if found.learns_weights else ''}{weights}"


def questions(found: Misfit) -> str:
    """What a model lacks most often, if it may lack it."""
    known = "background=..." if found.family in COUNTS else "a row fixed on"
    asked = [] if found.has_baseline else [f"Is there {baseline(found)} ({known})?"]
    how = "a prior for their weight" if found.row_weights else "weights=ch.Gamma(...)"
    asked += [] if found.learns_weights else [f"Are the weights right (learn them: {how})?"]
    return " ".join([*asked, "Are there enough rows?"])


def needed(found: Misfit) -> str:
    """What the questions ask for, in words."""
    parts = [] if found.has_baseline else [baseline(found)]
    parts += [] if found.learns_weights else ["the right weights"]
    return f"{', '.join(parts)} and enough rows" if parts else "enough rows"


def baseline(found: Misfit) -> str:
    """What a signal that is not 0 with all rows off needs: counts have a parameter for it."""
    return "a background" if found.family in COUNTS else "a baseline"
