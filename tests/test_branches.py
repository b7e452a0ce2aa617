"""The engine of the invariance proofs: it must enumerate rightly, and refuse what it cannot enumerate."""

import math

import numpy as np
import pytest

from branches import distribution, explore, path_step, prove, prove_pair, transition_matrix


def test_explore__comparison_is_a_branch():
    assert distribution(lambda u: bool(u[0] < 0.3), 1) == {True: 0.3, False: 0.7}


@pytest.mark.parametrize(
    ("event", "chance"),
    [
        (lambda u: u * 4.0 < 1.0, 0.25),
        (lambda u: 4 * u <= 1.0, 0.25),
        (lambda u: np.float64(4.0) * u < np.float64(1.0), 0.25),
        (lambda u: u / 4.0 < 0.1, 0.4),
        (lambda u: u - 0.5 < 0.0, 0.5),
        (lambda u: u + 0.25 < 0.5, 0.25),
        (lambda u: 0.25 + u >= 0.5, 0.75),
        (lambda u: 1.0 - u < 0.2, 0.2),
        (lambda u: 1.0 - u > 0.2, 0.8),
        (lambda u: np.float64(0.3) > u, 0.3),
        (lambda u: np.float64(0.3) <= u, 0.7),
        (lambda u: not u < 0.4, 0.6),
        (lambda u: 0.2 < u < 0.5, 0.3),
        (lambda u: u * -2.0 < -1.0, 0.5),
    ],
)
def test_explore__affine_forms(event, chance):
    assert distribution(lambda u: bool(event(u[0])), 1)[True] == pytest.approx(chance, abs=1e-15)


def test_explore__thresholds_outside_the_interval_are_certain():
    for certain in (1.0, 1.5, math.inf):
        assert distribution(lambda u, c=certain: bool(u[0] < c), 1) == {True: 1.0}
    for impossible in (0.0, -1.0, -math.inf):
        assert distribution(lambda u, c=impossible: bool(u[0] < c), 1) == {False: 1.0}


def test_explore__scale_zero_is_a_plain_number():
    assert distribution(lambda u: (bool(u[0] * 0.0 < 0.0), bool(u[0] * 0.0 <= 0.0)), 1) == {(False, True): 1.0}


def test_explore__one_uniform_compared_again_stays_consistent():
    found = distribution(lambda u: tuple(bool(u[0] < c) for c in (0.5, 0.2, 0.7)), 1)
    assert found.keys() == {(True, True, True), (True, False, True), (False, False, True), (False, False, False)}
    assert found[True, True, True] == pytest.approx(0.2, abs=1e-15)
    assert found[True, False, True] == pytest.approx(0.3, abs=1e-15)
    assert found[False, False, True] == pytest.approx(0.2, abs=1e-15)


def test_explore__comparison_that_is_not_looked_at_is_no_branch():
    assert len(list(explore(lambda u: (u[0] < 0.5, 7)[1], 1))) == 1


def test_explore__derived_values_share_their_uniform():
    """A value and what is left of it after a subtraction are one number, not two."""
    found = distribution(lambda u: (bool(u[0] < 0.4), bool(u[0] - 0.4 < 0.3)), 1)
    assert set(found) == {(True, True), (False, True), (False, False)}
    assert found[False, True] == pytest.approx(0.3, abs=1e-15)


def test_explore__int_has_equal_outcomes():
    found = distribution(lambda u: int(u[0] * 5), 1)
    assert found == pytest.approx(dict.fromkeys(range(5), 0.2), abs=1e-15)


def test_explore__int_after_a_comparison():
    found = distribution(lambda u: (bool(u[0] < 0.5), int(u[0] * 3)), 1)
    expected = {(True, 0): 1 / 3, (True, 1): 1 / 6, (False, 1): 1 / 6, (False, 2): 1 / 3}
    assert found == pytest.approx(expected, abs=1e-15)


def test_explore__int_of_one_outcome():
    assert distribution(lambda u: int(u[0] * 1), 1) == {0: 1.0}


def test_explore__uniforms_are_independent():
    found = distribution(lambda u: (bool(u[0] < 0.3), bool(u[1] < 0.6)), 2)
    expected = {(True, True): 0.18, (True, False): 0.12, (False, True): 0.42, (False, False): 0.28}
    assert found == pytest.approx(expected, abs=1e-15)


def test_explore__slivers_of_rounding_are_branches_too():
    """The largest double below 1 is a uniform that a generator returns."""
    assert distribution(lambda u: bool(u[0] < 1 - 2**-53), 1)[False] == 2**-53


def test_explore__inversion_of_a_random_distribution():
    """The usual cumulative search returns the very weights that it searches."""
    weights = np.random.default_rng(1).dirichlet(np.ones(6))

    def search(u):
        left = u[0] * weights.sum()
        for i, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return i
        return len(weights) - 1

    found = distribution(search, 1)
    assert [found[i] for i in range(6)] == pytest.approx(weights, abs=1e-15)


def test_explore__agrees_with_random_numbers():
    def walk(u):
        x = 0
        for step in u:
            x = x + 1 if step * (x + 2.0) < 1.0 else x - int(step * 2)
        return x

    rng = np.random.default_rng(7)
    n = 20_000
    drawn = [walk(rng.random(4)) for _ in range(n)]
    for value, chance in distribution(walk, 4).items():
        # Five standard errors, for at most nine values: false alarm in 1 of 200,000 seeds.
        assert abs(drawn.count(value) / n - chance) <= 5 * math.sqrt(chance * (1 - chance) / n)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda u: float(u[0]),
        lambda u: math.exp(u[0]),
        lambda u: bool(u[0]),
        lambda u: u[0] == 0.5,
        lambda u: u[0] < u[1],
        lambda u: u[0] * u[1],
        lambda u: 1.0 / u[0],
        lambda u: np.empty(2).__setitem__(0, u[0]),
        lambda u: int(u[0] - 0.5),
        lambda u: int(1.0 - u[0]),
        lambda u: {u[0]: 1},
    ],
)
def test_uniform__misuse_raises(misuse):
    with pytest.raises(TypeError):
        list(explore(misuse, 2))


def test_uniform__nan_is_caught():
    with pytest.raises(AssertionError, match="NaN"):
        list(explore(lambda u: bool(u[0] * math.nan < 1.0), 1))
    with pytest.raises(AssertionError, match="NaN"):
        list(explore(lambda u: bool(u[0] < math.nan), 1))


def test_explore__function_with_a_memory_is_caught():
    calls = []

    def forgetful(u):
        calls.append(1)
        return len(calls) > 1 or bool(u[0] < 0.5)

    with pytest.raises(AssertionError, match="another course"):
        list(explore(forgetful, 1))


def test_transition_matrix__two_states():
    matrix = transition_matrix(lambda x, u: 1 - x if u[0] < (0.2, 0.6)[x] else x, [0, 1], 1)
    assert matrix == pytest.approx(np.array([[0.8, 0.2], [0.6, 0.4]]), abs=1e-15)


def test_transition_matrix__leaving_the_states_is_caught():
    with pytest.raises(AssertionError, match="1 -> 2, outside the support"):
        transition_matrix(lambda x, u: x + 1 if u[0] < 1e-15 or x == 0 else x, [0, 1], 1)


def metropolis(pi):
    def step(x, u):
        proposal = (x + (1 if u[0] < 0.5 else -1)) % len(pi)
        return proposal if u[1] < pi[proposal] / pi[x] else x

    return step


def test_prove__accepts_the_right_target_and_rejects_another():
    pi = {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}
    proof = prove(metropolis(pi), pi, 2)
    assert proof.error <= 1e-15
    assert proof.row_error <= 1e-15
    assert proof.irreducible
    assert prove(metropolis({0: 0.1, 1: 0.2, 2: 0.4, 3: 0.3}), pi, 2).error > 1e-2


def test_prove__reducible_chain_is_seen():
    proof = prove(lambda x, u: x, {0: 0.5, 1: 0.5}, 0)
    assert proof.error == 0
    assert not proof.irreducible


def test_prove_pair__targets_are_not_interchangeable():
    pi_i, pi_j = {0: 0.2, 1: 0.8}, {0: 0.5, 1: 0.5}

    def swap(pair, u):
        a, b = pair
        return (b, a) if u[0] < pi_i[b] * pi_j[a] / (pi_i[a] * pi_j[b]) else pair

    assert prove_pair(swap, pi_i, pi_j, 1).error <= 1e-15
    assert prove_pair(swap, pi_j, pi_i, 1).error > 1e-2


def test_path_step__leaves_its_argument_alone():
    def sweep(codes, uniforms):
        codes[0] = 1 if uniforms[0] < 0.25 else 0

    path = (3, 2)
    assert distribution(lambda u: path_step(sweep)(path, u), 1) == {(1, 2): 0.25, (0, 2): 0.75}
    assert path == (3, 2)
