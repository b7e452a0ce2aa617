"""What to try where chains disagree, in the order of the page "Know that a run converged".

Only what can be taken as it stands is named: jumps serve paths of models without priors, and blocks those that are not
drawn as a whole. A remedy is spelled for Python, see `warnings`.
"""

from __future__ import annotations

from collections.abc import Sequence

from chiasma.results.run_info import RunInfo
from chiasma.types import Floats

# Of a run that does not say how many starts it had, as older stores.
USUAL_STARTS = 32


def remedies(info: RunInfo, betas: Floats, learns: bool) -> list[str]:
    """Ways to move better, the first to try first. learns: whether the model has parameters to learn.

    >>> import numpy as np
    >>> info = RunInfo(update_kind="RowGibbs", update_named=True, larger_blocks=3)
    >>> for text in remedies(info, np.ones(1), learns=False):
    ...     print(text)
    let update='auto' choose
    take larger blocks (update=ch.BlockGibbs(size=3), exchange=None)
    let jumps be learned (update='jumps', exchange=None)
    add a ladder with crossovers (exchange='mosaic', ladder='auto')
    """
    kind = info.get("update_kind")
    moves_rows = kind not in (None, "Exact", "Collapsed")
    alone = ", exchange=None" if len(betas) == 1 else ""  # else a named update would come with a ladder
    found = ["let update='auto' choose"] if info.get("update_named") else []
    size = info.get("larger_blocks")
    if size is not None:
        found.append(f"take larger blocks (update=ch.BlockGibbs(size={size}){alone})")
    if moves_rows and not learns and kind != "Jumps":
        found.append(f"let jumps be learned (update='jumps'{alone})")
    if len(betas) == 1 and kind == "Collapsed":
        starts = 2 * (info.get("starts") or USUAL_STARTS)
        found.append(f"look for optima from more starts (update=ch.Collapsed(starts={starts}))")
    else:
        found.append(_better_ladder(betas, moves_rows))
    return found


def _better_ladder(betas: Floats, moves_rows: bool) -> str:
    if betas[0] == 0:
        return f"use more rungs (ladder=ch.Ladder.adapted({2 * len(betas)}))"
    if moves_rows:
        # The exchange is named, since a pilot chooses where nothing is.
        what = "add a ladder with crossovers" if len(betas) == 1 else "let the ladder reach hotter"
        return f"{what} (exchange='mosaic', ladder='auto')"
    if len(betas) == 1:
        return "add tempered replicas (exchange='auto', ladder='auto')"
    return "let the ladder reach hotter (ladder='auto')"


def either(texts: Sequence[str]) -> str:
    """
    >>> either(["sit", "walk", "run"]), either(["sit"])
    ('sit, walk, or run', 'sit')
    """
    return ", or ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
