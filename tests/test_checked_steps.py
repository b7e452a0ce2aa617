"""Step-wise use: whatever a sweep, an exchange or a target is given, it answers or refuses; no kernel runs wild."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chiasma as ch
from chiasma.errors import InvalidInput
from chiasma.sampling.updates import CheckedSweep

pytestmark = pytest.mark.jit_off
T = 12


def binary() -> ch.FactorialHMM:
    return ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=ch.Gaussian([1.0, 0.6, 0.4], sd=0.5), fixed={1: 1})


def rows() -> ch.FactorialHMM:
    three = ch.Row([0, 1, 2], ch.Sticky(renew=0.1))
    return ch.FactorialHMM(rows=[three, ch.Row([0, 0.6], ch.Switch(0.1, 0.2))], emission=ch.Gaussian(sd=0.5))


MODELS = {"binary": binary, "rows": rows}
Y = np.random.default_rng(1).normal(1.0, 0.5, T)
each_model = pytest.mark.parametrize("name", MODELS)
UPDATES = [ch.RowGibbs(), ch.BlockGibbs(size=2), ch.HammingBall(radius=1), ch.Exact()]
EXCHANGES = [ch.Swap(), ch.RandomCrossover(), ch.AugmentedCrossover(), ch.MosaicCrossover()]

# What is wrong with a path of T codes, and why.
BAD_PATHS: dict[str, Callable[[np.ndarray], Any]] = {
    "short": lambda codes: codes[:-1].copy(),
    "long": lambda codes: np.append(codes, 0),
    "empty": lambda codes: codes[:0],
    "two axes": lambda codes: codes[None].copy(),
    "too large": lambda codes: np.full_like(codes, 2**40),
    "one too large": lambda codes: np.append(codes[:-1], 64),
    "negative": lambda codes: np.append(codes[:-1], -1),
    "smallest": lambda codes: np.full_like(codes, np.iinfo(np.int64).min),
    "floats": lambda codes: codes.astype(float),
    "unsigned": lambda codes: codes.astype(np.uint8),
    "big-endian": lambda codes: codes.astype(">i8"),
    "objects": lambda codes: codes.astype(object),
    "list": lambda codes: codes.tolist(),
    "none": lambda codes: None,
    "strided": lambda codes: np.repeat(codes, 2)[::2],
    "masked": lambda codes: np.ma.array(codes, mask=True),
}
BAD_UNIFORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "short": lambda u: u[:-1].copy(),
    "long": lambda u: np.append(u, 0.5),
    "empty": lambda u: u[:0],
    "nan": lambda u: np.full_like(u, np.nan),
    "one": lambda u: np.append(u[:-1], 1.0),
    "negative": lambda u: np.append(u[:-1], -1e-9),
    "huge": lambda u: np.full_like(u, 1e300),
    "single precision": lambda u: u.astype(np.float32),
    "two axes": lambda u: u[None].copy(),
    "list": lambda u: u.tolist(),
    "number": lambda u: 0.5,
}


@each_model
@pytest.mark.parametrize("update", UPDATES, ids=repr)
def test_sweep__refuses_every_path_and_all_uniforms_that_do_not_fit(name, update):
    target = MODELS[name]().target(Y)
    rng = np.random.default_rng(2)
    for beta in (0.0, 0.7):
        sweep = update.prepare(target, beta)
        codes, uniforms = target.sample_prior(rng), rng.random(sweep.n_uniforms)
        for spoil in BAD_PATHS.values():
            with pytest.raises(InvalidInput, match="codes must be"):
                sweep(spoil(codes), uniforms)
        for spoil in BAD_UNIFORMS.values():
            with pytest.raises(InvalidInput, match="uniforms must be"):
                sweep(codes, spoil(uniforms))
        frozen = codes.copy()
        frozen.flags.writeable = False
        with pytest.raises(InvalidInput, match="can be written to"):
            sweep(frozen, uniforms)
        sweep(codes, uniforms)
        sweep.step(codes, rng)


@each_model
@pytest.mark.parametrize("exchange", EXCHANGES, ids=repr)
def test_exchange__refuses_every_path_and_all_uniforms_that_do_not_fit(name, exchange):
    target = MODELS[name]().target(Y)
    rng = np.random.default_rng(3)
    step = exchange.prepare(target, target, 1.0, 0.2)
    a, b, uniforms = target.sample_prior(rng), target.sample_prior(rng), rng.random(step.n_uniforms)
    for spoil in BAD_PATHS.values():
        with pytest.raises(InvalidInput, match="a must be"):
            step(spoil(a), b, uniforms)
        with pytest.raises(InvalidInput, match="b must be"):
            step(a, spoil(b), uniforms)
    for spoil in BAD_UNIFORMS.values():
        with pytest.raises(InvalidInput, match="uniforms must be"):
            step(a, b, spoil(uniforms))
    with pytest.raises(InvalidInput, match="a and b must be two paths"):
        step(a, a, uniforms)
    step(a, b, uniforms)
    step.step(a, b, rng)


@each_model
@pytest.mark.parametrize("beta", [np.nan, -0.1, np.inf, None, "x", [1.0, 2.0], 1j])
def test_prepare__refuses_a_beta_that_is_none(name, beta):
    target = MODELS[name]().target(Y)
    for update in UPDATES:
        with pytest.raises(InvalidInput, match="beta must be"):
            update.prepare(target, beta)
    for exchange in EXCHANGES:
        for betas in ((1.0, beta), (beta, 1.0)):
            with pytest.raises(InvalidInput, match="beta must be"):
                exchange.prepare(target, target, *betas)


def test_exchange__refuses_targets_of_different_form():
    target = binary().target(Y)
    for other in (binary().target(Y[:-1]), rows().target(Y)):
        with pytest.raises(InvalidInput, match="two targets over the same columns and rows, got 12 columns"):
            ch.MosaicCrossover().prepare(target, other, 1.0, 0.5)


@each_model
def test_target__refuses_every_path_that_does_not_fit(name):
    target = MODELS[name]().target(Y)
    rng = np.random.default_rng(4)
    own = target.sample_prior(rng)
    whole = target.expand(own) if name == "binary" else target.expand(own, rng)
    for what, spoil in BAD_PATHS.items():
        if what in ("unsigned", "big-endian", "list", "strided"):  # what only reads takes these forms
            assert target.log_prior(spoil(own)) == target.log_prior(own)
            assert target.log_likelihood(spoil(own)) == target.log_likelihood(own)
            assert target.log_parts(spoil(whole)) == target.log_parts(whole)
            continue
        for method, codes in ((target.log_prior, own), (target.log_likelihood, own), (target.log_parts, whole)):
            with pytest.raises(InvalidInput, match="codes must"):
                method(spoil(codes))
    for wrong in ("too large", "negative", "floats", "none"):
        with pytest.raises(InvalidInput, match="codes must be"):
            target.reduce(BAD_PATHS[wrong](whole))
    for rng_like in (None, 1, np.random):
        with pytest.raises(InvalidInput, match=r"rng must be a numpy\.random\.Generator"):
            target.sample_prior(rng_like)


def test_target__with_a_hole_in_its_codes():
    """Three states have two bits, and the fourth code is none."""
    target = rows().target(Y)
    codes = np.full(T, 3)
    with pytest.raises(InvalidInput, match=r"codes of rows with \[3, 2\] states, got 3"):
        target.log_prior(codes)
    with pytest.raises(InvalidInput, match=r"codes of rows with \[3, 2\] states, got 3"):
        ch.RowGibbs().prepare(target, 1.0)(codes, np.zeros(2 * T))


@each_model
def test_engines__work_on_targets_that_check_nothing(name):
    target = MODELS[name]().exact_target(Y)
    assert not isinstance(ch.RowGibbs().prepare(target, 1.0), CheckedSweep)
    checked = MODELS[name]().target(Y)
    assert isinstance(ch.RowGibbs().prepare(checked, 1.0), CheckedSweep)
    rng = np.random.default_rng(5)
    codes = target.sample_prior(rng)
    assert checked.log_prior(codes) == target.log_prior(codes)
    assert checked.log_likelihood(codes) == target.log_likelihood(codes)
    paths = codes.copy(), codes.copy()
    uniforms = rng.random(ch.RowGibbs().prepare(target, 1.0).n_uniforms)
    for own, path in zip((target, checked), paths, strict=True):
        ch.RowGibbs().prepare(own, 1.0)(path, uniforms)
    np.testing.assert_array_equal(*paths)


@each_model
@pytest.mark.parametrize("rng", [None, 1, np.random, "x"])
def test_steps__refuse_what_is_no_generator(name, rng):
    target = MODELS[name]().target(Y)
    a, b = target.sample_prior(np.random.default_rng(6)), target.sample_prior(np.random.default_rng(7))
    with pytest.raises(InvalidInput, match=r"rng must be a numpy\.random\.Generator"):
        ch.RowGibbs().prepare(target, 1.0).step(a, rng)
    with pytest.raises(InvalidInput, match=r"rng must be a numpy\.random\.Generator"):
        ch.Swap().prepare(target, target, 1.0, 0.5).step(a, b, rng)


@pytest.mark.parametrize(
    "other", [None, "x", 3, Y, binary(), ch.BlockModes(2, 4, 0.1)], ids=lambda one: type(one).__name__
)
def test_prepare__refuses_what_is_no_target(other):
    for update in UPDATES:
        with pytest.raises(InvalidInput, match=r"needs a target, got .*; model\.target\(data\) makes one"):
            update.prepare(other, 1.0)
    for exchange in EXCHANGES:
        for pair in ((other, other), (binary().target(Y), other)):
            with pytest.raises(InvalidInput, match="needs a target"):
                exchange.prepare(*pair, 1.0, 0.5)


# ---- Vectors of a density --------------------------------------------------------------------------------------------


def normal(update: Any) -> ch.Density:
    return ch.Density(lambda x: -0.5 * (x**2).sum(axis=1), 6, np.zeros(6), update)


def moved(x: np.ndarray, beta: float, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0.0, beta**-0.5, x.shape)


DENSITIES = {
    "modes": ch.BlockModes(2, 6, 0.1),
    "modes, random sites": ch.BlockModes(2, 6, 0.1, update=ch.SiteGibbs(sites=3)),
    "letters": ch.Density(lambda x: -x.sum(axis=1), 6, np.zeros(6, int), ch.SiteGibbs(alphabet=(0, 1, 2))),
    "walk": normal(ch.RandomWalk()),
    "walk, random sites": normal(ch.RandomWalk(sites=2)),
    "own": normal(moved),
}
each_density = pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES)
BAD_VECTORS: dict[str, Callable[[np.ndarray], Any]] = {
    "long by far": lambda x: np.zeros(10**6, x.dtype),
    "other type": lambda x: x.astype(np.float32),
    "complex": lambda x: x.astype(complex),
    "frozen": lambda x: np.frombuffer(x.tobytes(), x.dtype),
    **{name: BAD_PATHS[name] for name in ("short", "long", "empty", "two axes", "objects", "list", "none")},
    **{name: BAD_PATHS[name] for name in ("strided", "masked", "unsigned")},
}


@each_density
@pytest.mark.parametrize("beta", [np.nan, -0.1, np.inf, None, "x", [1.0, 2.0], 1j])
def test_density__refuses_a_beta_that_is_none(density, beta):
    with pytest.raises(InvalidInput, match="beta must be"):
        density.tempered(np.zeros((1, 6)), beta)


@each_density
def test_density__refuses_every_vector_that_does_not_fit(density):
    x = density.initial(np.random.default_rng(10))
    for what in ("short", "long", "empty", "two axes", "objects", "none", "masked", "complex"):
        bad = BAD_VECTORS[what](x)
        for method in (density.log_likelihood, density.log_prior):
            with pytest.raises(InvalidInput, match="x must"):
                method(bad)
        for method in (density.evaluate, density.evaluate_prior):
            with pytest.raises(InvalidInput, match="x must"):
                method(bad if what == "none" else bad[None])
    assert density.log_likelihood(x.tolist()) == density.log_likelihood(x)


@pytest.mark.parametrize("x", [[0, 1], np.zeros(6), np.zeros((6, 2), int), None, "x"], ids=str)
def test_nearest_mode__refuses_what_is_no_vector(x):
    with pytest.raises(InvalidInput, match=r"x must be zeros and ones of shape \(\.\.\., 6\)"):
        ch.BlockModes(2, 6, 0.1).nearest_mode(x)
