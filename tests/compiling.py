"""Call everything that compiles, once: tests that follow find it compiled.

Two processes of tests would compile most of it twice, and code of different compilations may round differently, while
runs are compared bit by bit.
"""

from __future__ import annotations

import chiasma as ch
import test_rows
import test_state_moves
import test_store
from chiasma.datasets.tumours import simulate_tumour
from chiasma.tumour.bins import simulated_bins
from chiasma.tumour.landscape import Bounds
from chiasma.tumour.solutions import solve

Y = [0.1, 1.2, float("nan"), 0.9, 2.1, 0.3]
SD = ch.HalfNormal(1.0)
QUICK = {"draws": 4, "warmup": 2, "chains": 2, "seed": 1, "workers": 1, "progress": False}


def use_everything() -> None:
    for kind in test_store.KINDS:
        test_store.whole(kind)
    test_rows.use_every_pass()
    test_state_moves.use_every_move()
    for enter in (0.1, 0.0):  # in linear space, and in logarithms
        use_passes(ch.FactorialHMM(rows=ch.Switches(enter, 0.2, 0.5), emission=ch.Gaussian([1.0, 0.6], sd=SD)))
        row = ch.Row([0, 1, 2], ch.Markov([[0.9 - enter, 0.1, enter], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]), copies=2)
        use_passes(ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=SD)))
    learned = ch.FactorialHMM(rows=ch.Switches(ch.Beta(1, 9), 0.2), emission=ch.Gaussian([1.0, 0.6], sd=SD))
    for update in ("row", "collapsed"):
        ch.sample(learned, Y, update=update, exchange=None, **QUICK)
    known = ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=ch.Gaussian([1.0, 0.6], sd=0.5))
    ch.sample(known, Y, update="gaussian-blocks", exchange=None, **QUICK)
    tumour = simulate_tumour(1, n_bins=60, purity=0.7, doubled=False, clones=1)
    solve([simulated_bins(tumour)], Bounds(clones=(1, 1), purity=(0.5, 0.9), ploidy=(1.5, 3.0)), workers=1)


def use_passes(unknown: ch.FactorialHMM) -> None:
    ch.exact.value_and_gradient(unknown, Y, {"sd": 0.5})
    model = unknown.at({"sd": 0.5})
    ch.exact.marginals(model, Y)
    ch.exact.map_states(model, Y)
    ch.exact.draws(model, Y, 2, seed=1)
