"""Known states: certain at every temperature, in exact passes, updates, exchanges, learning, stores and excerpts."""

from itertools import product

import numpy as np
import pytest

import chiasma as ch
from branches import pair_step, path_step, prove, prove_pair
from chiasma.io.options import as_sections
from chiasma.io.settings import Settings
from chiasma.io.signal import Signal
from chiasma.io.tables import read_signal
from chiasma.kernels.layout import pack_states
from chiasma.models.labels import exchangeable_blocks

EXACT, REJECTED = 1e-12, 1e-4
NAN = np.nan
BINARY = [ch.Row([0, 1.0], ch.Switch(0.2, 0.3), "a"), ch.Row([0, 0.6], ch.Switch(0.1, 0.3), "b")]
STATES = [ch.Row([0, 1.0, 3.0], ch.Sticky(0.3), "a"), ch.Row([0, 0.6], ch.Switch(0.1, 0.3), "b")]
COPIES = [ch.Row([0, 1.0], ch.Switch(0.2, 0.3), "a", copies=2)]
CASES = {
    "binary": (BINARY, {"a": [1, -1, -1], "b": [-1, NAN, 0]}),
    "states": (STATES, {"a": [2, 1, -1], "b": [-1, 0, 1]}),
    "copies": (COPIES, {"a_2": [-1, 1, -1]}),
}


def made(case, known=True):
    rows, states = CASES[case]
    data = ch.Observations([0.3, NAN, 0.9], starts=[2], known=states if known else None)
    return ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.7)), data


def paths(case, beta):
    """Paths (K, T) that agree with the known states, and their log densities."""
    model, plain = made(case, known=False)
    known = {model.row_number(name): states for name, states in CASES[case][1].items()}
    columns = list(product(*(range(size) for size in model.layout.sizes)))
    for path in product(columns, repeat=3):
        states = np.array(path).T
        if all(not x >= 0 or states[k, t] == x for k, own in known.items() for t, x in enumerate(own)):
            yield states, ch.log_joint(model, plain, states, beta)


def posterior(case, beta):
    """pi_beta by enumeration, by the codes of the axes."""
    model, data = made(case)
    target, found = model.exact_target(data), {}
    for states, log_density in paths(case, beta):
        key = tuple(target.reduce(pack_states(states, model.layout)).tolist())
        found[key] = found.get(key, 0.0) + np.exp(log_density)
    total = sum(found.values())
    return {key: mass / total for key, mass in found.items()}


@pytest.mark.parametrize("beta", [1.0, 0.4, 0.0])
@pytest.mark.parametrize("case", CASES)
def test_evidence_and_probabilities_by_enumeration(case, beta):
    model, data = made(case)
    found = list(paths(case, beta))
    logs = np.array([log_density for _, log_density in found])
    assert ch.exact.log_evidence(model, data, beta=beta) == pytest.approx(np.logaddexp.reduce(logs), abs=1e-12)
    weights = np.exp(logs - np.logaddexp.reduce(logs))
    for k in range(model.n_rows):
        expected = [
            [sum(w for w, (x, _) in zip(weights, found, strict=True) if x[k, t] == s) for t in range(3)]
            for s in range(model.layout.sizes[k])
        ]
        assert ch.exact.probabilities(model, data, k, beta=beta) == pytest.approx(np.array(expected), abs=1e-12)
    if beta == 0:
        assert model.exact_target(data).log_known == pytest.approx(np.logaddexp.reduce(logs), abs=1e-12)
    if beta == 1:
        best = found[int(logs.argmax())][1]
        assert ch.log_joint(model, data.with_signal(data.y), ch.exact.map_states(model, data)) == pytest.approx(best)


UPDATES = {"row": ch.RowGibbs(), "block": ch.BlockGibbs(size=2), "ball": ch.HammingBall(radius=1)}


@pytest.mark.symbolic
@pytest.mark.parametrize("beta", [0.6, 0.0])
@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
@pytest.mark.parametrize("case", ["binary", "states"])
def test_updates(case, update, beta):
    model, data = made(case)
    sweep = update.prepare(model.exact_target(data), beta)
    proof = prove(path_step(sweep), posterior(case, beta), sweep.n_uniforms)
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT


EXCHANGES = {"swap": ch.Swap(), "augmented": ch.AugmentedCrossover(), "mosaic": ch.MosaicCrossover()}


@pytest.mark.symbolic
@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
def test_exchanges(exchange):
    model, data = made("binary")
    target = model.exact_target(data)
    step = exchange.prepare(target, target, 1.0, 0.2)
    proof = prove_pair(pair_step(step), posterior("binary", 1.0), posterior("binary", 0.2), step.n_uniforms)
    assert proof.error <= EXACT
    assert proof.row_error <= EXACT


@pytest.mark.symbolic
def test_a_known_state_that_is_tempered_away_is_rejected():
    """A mutant: at beta = 0 the path is drawn from the prior alone."""
    model, data = made("binary", known=False)
    sweep = ch.RowGibbs().prepare(model.exact_target(data), 0.0)
    masses = posterior("binary", 0.0)
    every = {key: masses.get(key, 0.0) for key in product(range(4), repeat=3)}
    assert prove(path_step(sweep), every, sweep.n_uniforms).error > REJECTED


@pytest.mark.parametrize("beta", [1.0, 0.0])
def test_gradients(beta):
    """The evidence of signal and known states, by differences."""
    rng = np.random.default_rng(1)
    rows = [
        ch.Row([0, 1.0, 3.0], ch.Sticky(ch.Beta(1, 5)), "a", weight=ch.Gamma(2, 1)),
        ch.Row([0, 0.6], ch.Switch(ch.Beta(1, 9), 0.3), "b"),
    ]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=ch.HalfNormal(1)))
    data = ch.Observations(rng.normal(size=30), starts=[9], known={"a": np.where(np.arange(30) < 12, 1, -1)})
    values = {"a.weight": 1.3, "a.renew": 0.2, "b.enter": 0.1, "sd": 0.8}
    _, gradient = ch.exact.value_and_gradient(model, data, values, beta=beta)
    for name, value in values.items():
        ends = [
            ch.exact.value_and_gradient(model, data, values | {name: value + d}, beta=beta)[0] for d in (1e-6, -1e-6)
        ]
        assert gradient[name] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-5)


def test_labels_teach():
    """Two weeks of labels and two without: rows with equal priors get the values that their labels say."""
    rows = [ch.Row([0, 1], ch.Switch(ch.Beta(1, 20), ch.Beta(1, 20)), n, weight=ch.Gamma(2, 0.02)) for n in "ab"]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=ch.HalfNormal(20)))
    truth = {"a.weight": 150, "b.weight": 100, "sd": 5.0} | {f"{n}.{p}": 0.05 for n in "ab" for p in ("enter", "leave")}
    states, y = model.at(truth).simulate(300, seed=1)
    known = {name: np.where(np.arange(300) < 150, own, -1) for name, own in zip("ab", states, strict=True)}
    data = ch.Observations(y, known=known)
    assert exchangeable_blocks(model) == [[(0,), (1,)]]
    assert exchangeable_blocks(model.for_data(data)) == []
    best = ch.optimise(model, data, starts=4, seed=1, progress=False).best
    assert best.values["a.weight"] == pytest.approx(150, abs=3)
    assert best.values["b.weight"] == pytest.approx(100, abs=3)
    assert np.all(ch.exact.map_states(best.model, data)[:, :150] == states[:, :150])


def test_a_ladder_to_the_prior_knows_the_probability_of_known_states():
    """The evidence from a ladder against the exact one, within five standard errors: one false alarm in 10^6."""
    model, data = made("states")
    options = {"draws": 1000, "warmup": 50, "chains": 2, "seed": 1, "progress": False}
    posterior = ch.sample(model, data, update="row", ladder=[1, 3, np.inf], **options)
    exact = ch.exact.log_evidence(model, data)
    assert abs(posterior.log_evidence.value - exact) < 5 * posterior.log_evidence.standard_error
    learned = ch.FactorialHMM(rows=STATES, emission=ch.Gaussian(sd=ch.HalfNormal(1)))
    short = {"draws": 20, "warmup": 5, "chains": 1, "seed": 1, "progress": False}
    for update in ("row", "exact", ch.Collapsed(starts=2)):
        found = ch.sample(learned, data, update=update, ladder=[1, np.inf], **short)
        assert found.log_evidence is None  # that of the known states under the prior of the parameters is not known
        assert np.all(found.states("a").sel(site=0) == 2)


def test_stored_and_opened(tmp_path):
    model, data = made("copies")
    ch.sample(model, data, draws=10, chains=1, seed=1, progress=False, store=tmp_path / "run.zarr")
    opened = ch.open_posterior(tmp_path / "run.zarr")
    assert opened.data.known["a_2"].tolist() == [-1, 1, -1]
    assert opened.merging.groups == []  # a row with known states is like no other
    with pytest.raises(ch.ChiasmaError, match=r"known"):
        ch.sample(
            model, made("copies", known=False)[1], draws=10, chains=1, seed=1, progress=False, resume=True,
            store=tmp_path / "run.zarr",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ([1, 0], "maps rows"),
        ({"a": [1, 0]}, "one state per column"),
        ({"a": [0.5, 0, 0]}, "0, 1, 2"),
        ({"a": [-2, 0, 0]}, "0, 1, 2"),
        ({"a": ["on", 0, 0]}, "known states"),
    ],
)
def test_observations_refuse(known, words):
    with pytest.raises(ch.InvalidInput, match=words):
        ch.Observations([0.0, 1.0, 2.0], known=known)


@pytest.mark.parametrize(
    ("rows", "known", "words"),
    [
        (STATES, {"a": [3, 0, 0]}, "states 0..2"),
        (STATES, {"c": [0, 0, 0]}, "no row 'c'"),
        (COPIES, {"a": [1, 0, 0]}, "a_1"),
        (STATES, {"a": [1, 0, 0], 0: [1, 0, 0]}, "twice"),
        ([*BINARY, ch.Row([0, 1], name="base", fixed=1)], {"base": [1, 1, 1]}, "fixed at 1"),
    ],
)
def test_models_refuse(rows, known, words):
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=1.0))
    with pytest.raises(ch.InvalidInput, match=words):
        ch.exact.log_evidence(model, ch.Observations([0.0, 1.0, 2.0], known=known))


@pytest.mark.parametrize("update", ["auto", "row"])
def test_impossible_known_states(update):
    chain = ch.Markov([[0.5, 0.5, 0.0], [0.2, 0.6, 0.2], [0.0, 0.5, 0.5]])
    model = ch.FactorialHMM(rows=[ch.Row([0, 1.0, 3.0], chain, "a")], emission=ch.Gaussian(sd=1.0))
    data = ch.Observations([0.0, 1.0, 2.0], known={"a": [0, 2, -1]})
    with pytest.raises(ch.ImpossibleData, match="known states"):
        ch.sample(model, data, update=update, draws=5, chains=1, seed=1, progress=False)


def test_columns_of_a_file(tmp_path):
    """Known states and covariates come from columns; settings and the kept copy of the data have them, too."""
    path = tmp_path / "house.csv"
    path.write_text("minute,kettle on,gc,watts\n0,1,0.2,9.5\n1,0,0.4,0.1\n2,NA,0.3,0.2\n", encoding="utf-8")
    options = {"known": ["big kettle=kettle on", "1=2"], "covariate": "gc"}
    settings = Settings().merged(**as_sections(options))
    signal = read_signal(path, settings.columns(), guess=True)
    assert signal.value == "watts"
    assert list(signal.data.known) == ["big kettle", 1]
    assert signal.data.known_array.tolist() == [[1, 0, -1], [1, 0, -1]]
    assert signal.covariates.names == ["gc"]
    signal.save(tmp_path / "data.npz")
    again = Signal.load(tmp_path / "data.npz")
    assert again.data.known.keys() == signal.data.known.keys()
    assert np.array_equal(again.covariates.matrix, signal.covariates.matrix)
    settings.write(tmp_path / "settings.toml", "")
    assert Settings.read(tmp_path / "settings.toml").columns() == settings.columns()
    with pytest.raises(ch.InvalidInput, match="ROW=COLUMN"):
        as_sections({"known": ["kettle"]})
