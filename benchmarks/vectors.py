"""Any density: modes found, error of mode weights, and effective draws, beside emcee, BlackJAX and plain tempering.

Six targets whose answer is known, one run per seed of about the same number of evaluations for every sampler;
adaptation and warm-up count. Effective draws are the variance of the quantities divided by the mean squared error of
their estimates over the runs: a sampler that stays in one mode has few, whatever it believes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from time import process_time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import chiasma as ch

if TYPE_CHECKING:
    from run import Report

EVALUATIONS = 100_000
SEEDS = range(1, 9)
RUNGS = 10


class Target(NamedTuple):
    """A log density over vectors, what is asked of it, and the exact answers."""

    name: str
    size: int
    log_lik: Callable[[np.ndarray], np.ndarray]
    log_prior: Callable[[np.ndarray], np.ndarray]
    prior_draw: Callable[[np.random.Generator], np.ndarray]
    quantities: Callable[[np.ndarray], np.ndarray]  # (n, size) -> (n, q)
    exact: np.ndarray  # (q,) their means
    variance: np.ndarray  # (q,)
    modes: Callable[[np.ndarray], np.ndarray] | None  # (n, size) -> (n,) labels
    n_modes: int
    options: Mapping[str, Any] = MappingProxyType({})  # of ch.Density
    jax: tuple[Any, Any] | None = None  # log likelihood and log prior of one vector
    make: Any = None


def normal_prior(size: int, sd: float) -> dict[str, Any]:
    return {
        "log_prior": lambda x: -0.5 * (x**2).sum(axis=1) / sd**2,
        "prior_draw": lambda rng: rng.normal(0, sd, size),
    }


def gradients(of_lik: Callable[[np.ndarray], np.ndarray], sd: float) -> dict[str, Any]:
    """Options of a density with a normal prior of standard deviation sd."""
    return {"gradient": of_lik, "prior_gradient": lambda x: -x / sd**2}


def modes_32() -> Target:
    """32 normal modes in 10 dimensions, of unequal weights."""
    import jax.numpy as jnp

    rng = np.random.default_rng(1)
    means, weights = rng.uniform(-6, 6, (32, 10)), rng.dirichlet(np.full(32, 5.0))
    sd, wide = 0.5, 6.0
    # The prior multiplies each mode, which stays normal.
    var = 1 / (1 / sd**2 + 1 / wide**2)
    exact = weights * np.exp(-0.5 * (means**2).sum(axis=1) / (sd**2 + wide**2))
    exact /= exact.sum()
    square, log_w = (means**2).sum(axis=1), np.log(weights)

    def parts(x):
        return log_w - 0.5 * ((x**2).sum(axis=1)[:, None] - 2 * x @ means.T + square) / sd**2

    def log_lik(x):
        a = parts(x)
        top = a.max(axis=1)
        return top + np.log(np.exp(a - top[:, None]).sum(axis=1))

    def slope(x):
        a = parts(x)
        shares = np.exp(a - a.max(axis=1, keepdims=True))
        return (shares @ means / shares.sum(axis=1, keepdims=True) - x) / sd**2

    def nearest(x):
        return ((x[:, None, :] - means * var / sd**2) ** 2).sum(axis=2).argmin(axis=1)

    return Target(
        "32 modes in 10 dimensions", 10, log_lik, **normal_prior(10, wide),
        quantities=lambda x: nearest(x)[:, None] == np.arange(32), exact=exact, variance=exact * (1 - exact),
        modes=nearest, n_modes=32, options=gradients(slope, wide),
        jax=(
            lambda x: jnp.log(jnp.sum(jnp.exp(log_w - 0.5 * ((x - means) ** 2).sum(axis=1) / sd**2) + 1e-300)),
            lambda x: -0.5 * (x**2).sum() / wide**2,
        ),
    )  # fmt: skip


def blocks() -> Target:
    """Ten independent blocks of five coordinates, each with two modes in the proportion 2 to 1."""
    import jax.numpy as jnp

    sd, at, wide = 0.5, 2.0, 3.0

    def log_lik(x):
        sums = (x.reshape(len(x), 10, 5) ** 2).sum(axis=2), x.reshape(len(x), 10, 5).sum(axis=2)
        low, high = (-0.5 * (sums[0] + sign * 2 * at * sums[1] + 5 * at**2) / sd**2 for sign in (1, -1))
        return np.logaddexp(low, high + np.log(2)).sum(axis=1)

    def slope(x):
        b = x.reshape(len(x), 10, 5)
        upper = 1 / (1 + np.exp(-np.clip(2 * at * b.sum(axis=2) / sd**2 + np.log(2), -700, 700)))
        return ((at * (2 * upper[:, :, None] - 1) - b) / sd**2).reshape(x.shape)

    def signs(x):
        return x.reshape(len(x), 10, 5).sum(axis=2) > 0

    def one(x):
        b = x.reshape(10, 5)
        low, high = -0.5 * ((b + at) ** 2).sum(1) / sd**2, -0.5 * ((b - at) ** 2).sum(1) / sd**2
        return jnp.logaddexp(low, high + jnp.log(2.0)).sum()

    return Target(
        "50 dimensions in 10 blocks", 50, log_lik, **normal_prior(50, wide), quantities=signs, exact=np.full(10, 2 / 3),
        variance=np.full(10, 2 / 9), modes=lambda x: signs(x) @ (1 << np.arange(10)), n_modes=1024,
        options=gradients(slope, wide),
        jax=(one, lambda x: -0.5 * (x**2).sum() / wide**2),
    )  # fmt: skip


def volatility() -> Target:
    """A bimodal path: an AR(1) process of which only the size is seen, 60 times. Its mean is just above zero, so that
    one sign is the more probable.
    """
    import jax.numpy as jnp

    rng = np.random.default_rng(3)
    n, mean, phi, sd, noise = 60, 0.08, 0.95, 0.3, 0.5
    h = np.zeros(n)
    h[0] = 1.5
    for t in range(1, n):
        h[t] = phi * h[t - 1] + sd * rng.normal()
    h = np.abs(h) + 0.3
    y = h + noise * rng.normal(size=n)
    first = sd / np.sqrt(1 - phi**2)

    def draw(rng):
        x = np.empty(n)
        x[0] = mean + first * rng.normal()
        for t in range(1, n):
            x[t] = mean + phi * (x[t - 1] - mean) + sd * rng.normal()
        return x

    def log_prior(x):
        z = x - mean
        return -0.5 * (z[:, 0] / first) ** 2 - 0.5 * ((z[:, 1:] - phi * z[:, :-1]) ** 2).sum(axis=1) / sd**2

    def prior_gradient(x):
        z, out = x - mean, np.zeros(x.shape)
        out[:, 0] -= z[:, 0] / first**2
        rest = (z[:, 1:] - phi * z[:, :-1]) / sd**2
        out[:, 1:] -= rest
        out[:, :-1] += phi * rest
        return out

    # The exact probabilities of x > 0: forwards and backwards over a fine grid.
    grid = np.linspace(-8, 8, 1600)
    step = np.exp(-0.5 * ((grid - mean) - phi * (grid[:, None] - mean)) ** 2 / sd**2)
    seen = np.exp(-0.5 * (y[:, None] - np.abs(grid)) ** 2 / noise**2)
    forward, backward = [np.exp(-0.5 * ((grid - mean) / first) ** 2) * seen[0]], [np.ones(len(grid))]
    for t in range(1, n):
        forward.append(forward[-1] @ step * seen[t])
        backward.append(step @ (backward[-1] * seen[n - t]))
        forward[-1] /= forward[-1].sum()
        backward[-1] /= backward[-1].sum()
    both = np.array(forward) * np.array(backward[::-1])
    exact = (both[:, grid > 0].sum(axis=1) / both.sum(axis=1))[::10]

    return Target(
        "path seen by its size", n, lambda x: -0.5 * ((y - np.abs(x)) ** 2).sum(axis=1) / noise**2, log_prior, draw,
        quantities=lambda x: x[:, ::10] > 0, exact=exact, variance=exact * (1 - exact),
        modes=lambda x: (x.mean(axis=1) > 0).astype(int), n_modes=2,
        options={"gradient": lambda x: np.sign(x) * (y - np.abs(x)) / noise**2, "prior_gradient": prior_gradient},
        jax=(
            lambda x: -0.5 * ((y - jnp.abs(x)) ** 2).sum() / noise**2,
            lambda x: -0.5 * ((x[0] - mean) / first) ** 2
            - 0.5 * (((x[1:] - mean) - phi * (x[:-1] - mean)) ** 2).sum() / sd**2,
        ),
    )  # fmt: skip


def spins() -> Target:
    """A chain of 50 spins, strongly coupled, in a weak field."""
    n, coupling, field = 50, 1.2, 0.02

    def log_lik(x):
        s = 2.0 * x - 1
        return coupling * (s[:, 1:] * s[:, :-1]).sum(axis=1) + field * s.sum(axis=1)

    def local(x, sites, values):
        s = np.pad(2.0 * x - 1, ((0, 0), (1, 1)))
        rows = np.arange(len(x))
        gain = coupling * (s[rows, sites] + s[rows, sites + 2]) + field
        return gain * 2.0 * (values - x[rows, sites])

    spin = np.array([-1.0, 1.0])
    step = np.exp(coupling * spin[:, None] * spin + 0.5 * field * (spin[:, None] + spin))
    forward = [np.exp(0.5 * field * spin)]
    for _ in range(n - 1):
        forward.append(forward[-1] @ step)
    backward = [np.exp(0.5 * field * spin)]
    for _ in range(n - 1):
        backward.append(step @ backward[-1])
    exact = np.array([(f * b)[1] / (f * b).sum() for f, b in zip(forward, backward[::-1], strict=True)])[::10]
    neighbours = [[s for s in (t - 1, t + 1) if 0 <= s < n] for t in range(n)]
    return Target(
        "spin chain", n, log_lik, lambda x: np.zeros(len(x)), lambda rng: rng.integers(0, 2, n),
        quantities=lambda x: x[:, ::10], exact=exact, variance=exact * (1 - exact),
        modes=lambda x: (2 * x.sum(axis=1) > n).astype(int), n_modes=2,
        options={"update": ch.SiteGibbs(), "neighbours": neighbours, "local": local},
    )  # fmt: skip


def toy() -> Target:
    """The paper's toy, ten blocks of five sites."""
    target = ch.BlockModes(10, 50, 0.03)
    return Target(
        "BlockModes", 50, lambda x: target.evaluate(x)[0], lambda x: np.zeros(len(x)),
        lambda rng: rng.integers(0, 2, 50).astype(np.int8),
        quantities=lambda x: target.nearest_mode(x) == 1, exact=np.full(10, 0.5), variance=np.full(10, 0.25),
        modes=lambda x: (target.nearest_mode(x) == 1) @ (1 << np.arange(10)), n_modes=1024,
        options={"update": ch.SiteGibbs(), "neighbours": target._neighbours, "local": target._of_flips},
    )  # fmt: skip


def banana() -> Target:
    """A twisted normal in ten dimensions: x1 bends with the square of x0."""
    sd, bend, n = 3.0, 0.3, 10

    def straight(x):
        y = x.copy()
        y[:, 1] += bend * (x[:, 0] ** 2 - sd**2)
        return y

    scale = np.ones(n)
    scale[0] = sd
    wide = 10.0

    def log_lik(x):
        # The target is the twisted normal itself: the prior is divided out.
        return -0.5 * ((straight(x) / scale) ** 2).sum(axis=1) + 0.5 * (x**2).sum(axis=1) / wide**2

    def slope(x):
        y = straight(x) / scale
        out = x / wide**2 - y / scale
        out[:, 0] -= 2 * bend * x[:, 0] * y[:, 1]
        return out

    def one(x):
        y1 = x[1] + bend * (x[0] ** 2 - sd**2)
        rest = (x[2:] ** 2).sum()
        return -0.5 * ((x[0] / sd) ** 2 + y1**2 + rest) + 0.5 * (x**2).sum() / wide**2

    return Target(
        "banana", n, log_lik, **normal_prior(n, wide), quantities=lambda x: x[:, :3],
        exact=np.zeros(3), variance=np.array([sd**2, 1 + 2 * bend**2 * sd**4, 1.0]), modes=None, n_modes=0,
        options=gradients(slope, wide),
        jax=(one, lambda x: -0.5 * (x**2).sum() / wide**2),
    )  # fmt: skip


class Count:
    """A function that counts the vectors it is given."""

    def __init__(self, function: Callable[[np.ndarray], np.ndarray]):
        self.function, self.n = function, 0

    def __call__(self, x: np.ndarray, *others: np.ndarray) -> np.ndarray:
        self.n += len(x)
        return self.function(x, *others)


def ours(target: Target, seed: int, gradient: bool = True, **options: Any) -> tuple[np.ndarray, int, float]:
    """Draws, evaluations and CPU seconds of ch.sample with its defaults. Local changes count as evaluations."""
    counts = {"log_density": Count(target.log_lik)}
    own = dict(target.options)
    if not gradient:
        own = {name: own[name] for name in own if "gradient" not in name}
    for name in ("gradient", "local"):
        if name in own:
            own[name] = counts[name] = Count(own[name])
    start = target.prior_draw(np.random.default_rng(seed))
    density = ch.Density(
        counts["log_density"], target.size, start, log_prior=target.log_prior, prior_draw=target.prior_draw, **own
    )

    def run(draws: int, warmup: int) -> np.ndarray:
        posterior = ch.sample(
            density, draws=draws, warmup=warmup, chains=1, seed=seed, workers=1, progress=False, **options
        )
        return posterior.draws.values[0]

    def spent() -> int:
        return sum(count.n for count in counts.values())

    run(20, 200)
    each = spent() / 220
    warmup = int(EVALUATIONS / each / 4)
    before, began = spent(), process_time()
    draws = run(max(10, 3 * warmup), warmup)
    return draws, spent() - before, process_time() - began


def plain_tempering(target: Target, seed: int) -> tuple[np.ndarray, int, float]:
    """Non-reversible parallel tempering in forty lines; rungs and scales adapt in a quarter of the run."""
    rng = np.random.default_rng(seed)
    began, discrete = process_time(), target.prior_draw(rng).dtype.kind != "f"
    betas = np.concatenate([[0.0], np.geomspace(1e-3, 1, RUNGS - 1)])
    x = np.array([target.prior_draw(rng) for _ in betas])
    lik, prior = target.log_lik(x), target.log_prior(x)
    scale, rejected, tried = np.ones(RUNGS), np.zeros(RUNGS - 1), np.zeros(RUNGS - 1)
    n = EVALUATIONS // RUNGS
    kept = np.empty((n, target.size), x.dtype)
    for i in range(n):
        if discrete:
            new = x.copy()
            sites = rng.integers(target.size, size=RUNGS)
            new[np.arange(RUNGS), sites] = 1 - new[np.arange(RUNGS), sites]
        else:
            new = x + scale[:, None] * rng.normal(size=x.shape)
        new[0] = target.prior_draw(rng)
        new_lik, new_prior = target.log_lik(new), target.log_prior(new)
        gain = new_prior - prior + betas * (new_lik - lik)
        gain[0] = 0.0
        taken = np.log(rng.random(RUNGS)) < gain
        x[taken], lik[taken], prior[taken] = new[taken], new_lik[taken], new_prior[taken]
        if i < n // 4:
            scale *= np.exp((np.minimum(1, np.exp(np.minimum(gain, 0))) - 0.234) / (1 + i) ** 0.6)
        for p in range(i % 2, RUNGS - 1, 2):
            gain_swap = (betas[p + 1] - betas[p]) * (lik[p] - lik[p + 1])
            tried[p] += 1
            rejected[p] += 1 - np.exp(min(0.0, gain_swap))
            if np.log(rng.random()) < gain_swap:
                for part in (x, lik, prior):
                    part[[p, p + 1]] = part[[p + 1, p]]
        if i in (n // 16, n // 8, n // 4):
            height = np.concatenate([[0], np.cumsum(rejected / np.maximum(tried, 1) + 1e-6)])
            betas = np.interp(np.linspace(0, height[-1], RUNGS), height, betas)
            rejected[:], tried[:] = 0, 0
        kept[i] = x[-1]
    return kept[n // 4 :], n * RUNGS, process_time() - began


def emcee_draws(target: Target, seed: int) -> tuple[np.ndarray, int, float]:
    import emcee

    rng = np.random.default_rng(seed)
    walkers = max(32, 2 * target.size + 2)
    steps = EVALUATIONS // walkers
    began = process_time()
    sampler = emcee.EnsembleSampler(
        walkers, target.size, lambda x: target.log_lik(x) + target.log_prior(x), vectorize=True
    )
    np.random.seed(seed)  # noqa: NPY002 - emcee draws from the global generator
    sampler.run_mcmc(np.array([target.prior_draw(rng) for _ in range(walkers)]), steps)
    return sampler.get_chain(discard=steps // 4, flat=True), walkers * steps, process_time() - began


PARTICLES, MOVES, LEAPFROGS = 1000, 2, 5


@lru_cache
def smc(make: Callable[[], Target]) -> tuple[Any, Any]:
    """The kernel of BlackJAX for a target, and its compiled step."""
    import blackjax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    target = make()
    assert target.jax is not None
    kernel = blackjax.adaptive_tempered_smc(
        target.jax[1], target.jax[0], blackjax.hmc.build_kernel(), blackjax.hmc.init,
        {
            "step_size": jnp.array([0.15]), "inverse_mass_matrix": jnp.ones((1, target.size)),
            "num_integration_steps": jnp.array([LEAPFROGS]),
        },
        blackjax.smc.resampling.systematic, target_ess=0.8, num_mcmc_steps=MOVES,
    )  # fmt: skip
    step = jax.jit(kernel.step)
    rng = np.random.default_rng(0)
    step(jax.random.key(0), kernel.init(jnp.array([target.prior_draw(rng) for _ in range(PARTICLES)])))
    return kernel, step


def blackjax_draws(target: Target, seed: int) -> tuple[np.ndarray, int, float]:
    """Adaptive tempered SMC with Hamiltonian moves of a suitable step size; compilation is not timed."""
    kernel, step = smc(target.make)
    import jax
    import jax.numpy as jnp

    rng, key = np.random.default_rng(seed), jax.random.key(seed)
    began, spent, out = process_time(), 0, []
    while spent < EVALUATIONS:  # as many whole passes as fit
        state = kernel.init(jnp.array([target.prior_draw(rng) for _ in range(PARTICLES)]))
        while float(_temperature(state)) < 1:
            key, own = jax.random.split(key)
            state, _ = step(own, state)
            spent += PARTICLES * MOVES * LEAPFROGS
            if spent > 20 * EVALUATIONS:
                break
        out.append(np.asarray(state.particles))
    return np.concatenate(out), spent, process_time() - began


def _temperature(state: Any) -> Any:
    return getattr(state, "tempering_param", getattr(state, "lmbda", None))


SAMPLERS: dict[str, Any] = {
    "chiasma": ours,
    "chiasma without gradient": lambda target, seed: ours(target, seed, gradient=False),
    "plain tempering": plain_tempering,
    "emcee": emcee_draws,
    "BlackJAX SMC": blackjax_draws,
}


def samplers(target: Target) -> list[str]:
    discrete = target.prior_draw(np.random.default_rng(0)).dtype.kind != "f"
    return ["chiasma", "plain tempering"] if discrete else list(SAMPLERS)


def overhead(rungs: int) -> float:
    """CPU microseconds per evaluation of random walks with swaps, beside those of the user's function."""

    def log_density(x):
        return -0.5 * (x * x).sum(axis=1)

    n, x = 20_000, np.zeros((rungs, 10))
    ladder = ch.Ladder.geometric(rungs, hottest=100.0)
    density = ch.Density(log_density, 10, np.zeros(10))
    best = []
    for _ in range(3):
        began = process_time()
        for _ in range(n):
            log_density(x)
        between = process_time()
        ch.sample(density, ladder=ladder, exchange="swap", draws=n, warmup=0, chains=1, workers=1, progress=False)
        best.append((process_time() - between) - (between - began))
    return min(best) / (n * rungs) * 1e6


# Effective draws of so few runs are known to about this factor: less is called equal.
EQUAL = 1.5


def run(report: Report) -> None:
    report.text(
        f"{len(SEEDS)} runs of about {EVALUATIONS:,} evaluations each, one chain; an evaluation is one vector, one "
        "gradient, or one local change. chiasma: `ch.sample(density)` with its defaults, with the gradient (or `local` "
        "and `neighbours` of discrete vectors) and without. CPU seconds of one run. BlackJAX: whole passes of tempered "
        "SMC, compilation not counted; it and emcee need real numbers. Walkers of emcee start from the prior, "
        "and those that stay where they began count as draws."
    )
    rows, behind = [], []
    for make in (modes_32, blocks, volatility, spins, toy, banana):
        target = make()._replace(make=make)
        rates: dict[str, tuple[float, float]] = {}
        for name in samplers(target):
            if name == "BlackJAX SMC":
                smc(make)
            runs = [SAMPLERS[name](target, seed) for seed in SEEDS]
            means = np.array([target.quantities(draws).mean(axis=0) for draws, *_ in runs])
            squares = ((means - target.exact) ** 2).mean(axis=0)
            effective = float(target.variance.sum() / squares.sum())
            evaluations, seconds = (float(np.mean([run[i] for run in runs])) for i in (1, 2))
            rates[name] = effective / evaluations, effective / seconds
            found = "-"
            if target.modes is not None:
                n_found = np.mean([len(np.unique(target.modes(draws))) for draws, *_ in runs])
                found = f"{n_found:.0f} of {target.n_modes}"
            rows.append(
                [
                    target.name, name, found, f"{np.sqrt(squares.mean()):.3f}", f"{effective:,.0f}",
                    f"{effective / evaluations * 1000:.2g}", f"{effective / seconds:,.3g}", f"{seconds:.2f}",
                ]
            )  # fmt: skip
            print(rows[-1], flush=True)
        ours_best = np.max([rate for name, rate in rates.items() if name.startswith("chiasma")], axis=0)
        for name, rate in rates.items():
            if not name.startswith("chiasma"):
                for what, own, other in zip(("per evaluation", "per CPU second"), ours_best, rate, strict=True):
                    if other > EQUAL * own:
                        behind.append(f"{target.name}: {name} is {other / own:.1f} times ahead {what}.")
    report.table(
        ["target", "sampler", "modes found", "error", "effective", "per 1,000 evaluations", "per CPU s", "CPU s"], rows
    )
    report.text(
        f"Behind by more than a factor of {EQUAL}:\n\n" + "\n".join(f"- {line}" for line in behind or ["nowhere"])
    )
    each = ", ".join(f"{overhead(rungs):.2f} with {rungs} rungs" for rungs in (8, 16, 32))
    report.text(f"CPU microseconds per evaluation beside the user's function, random walks and swaps: {each}.")
