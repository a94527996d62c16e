"""`turn_lambda` against generalised advantage estimation over turns, written from its definition."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chunked_td as ctd
from helpers.return_backends import torch

ARRAYS = [np.asarray, jnp.asarray] + ([torch.tensor] if torch is not None else [])


def over_turns(rewards, values, turns, mask, discount, lambda_):
    """Aₖ = δₖ + γ λ Aₖ₊₁, δₖ = Rₖ + γ Vₖ₊₁ − Vₖ over the turns k of one row: {first token: Aₖ}."""
    groups = []
    for t in np.flatnonzero(mask):
        if not groups or turns[t] != turns[groups[-1][-1]]:
            groups.append([])
        groups[-1].append(t)
    found, later, value = {}, 0.0, 0.0
    for group in reversed(groups):
        delta = sum(rewards[t] for t in group) + discount * value - values[group[0]]
        later = found[group[0]] = delta + discount * lambda_ * later
        value = values[group[0]]
    return found


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("masked", [False, True])
def test_first_tokens_have_the_advantage_of_their_turn(array, masked):
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, 5, 12))
    turns = np.cumsum(rng.random((5, 12)) < 0.3, axis=1)
    mask = rng.random((5, 12)) < 0.7 if masked else np.ones((5, 12), bool)
    rewards = np.where(mask, rewards, 0.0)
    ids = np.where(mask, turns, -1)
    per_token = ctd.turn_lambda(array(ids), 0.6, 0.9, array(mask))
    given = (array(rewards), array(values), array(mask), per_token.lambda_, 1.0)
    found = np.asarray(ctd.token_gae(*given, discount=per_token.discount).advantages)
    seen = 0
    for b in range(5):
        for t, advantage in over_turns(rewards[b], values[b], turns[b], mask[b], 0.9, 0.6).items():
            assert found[b, t] == pytest.approx(advantage, abs=2e-5)
            seen += 1
    assert seen > 10


def test_coefficients_of_two_turns():
    found = ctd.turn_lambda(np.array([[7, 7, 7, 2, 2]]), 0.5, 0.9)
    assert found.lambda_.tolist() == [[0.5, 1, 1, 0.5, 1]]
    assert found.discount.tolist() == [[1, 1, 0.9, 1, 0.9]]
    with_tool = ctd.turn_lambda(np.array([[7, 7, 0, 2, 2]]), 0.5, 0.9, np.array([[1, 1, 0, 1, 1]], bool))
    assert with_tool.lambda_.tolist() == [[0.5, 1, 1, 0.5, 1]]
    assert with_tool.discount.tolist() == [[1, 0.9, 1, 1, 0.9]]
    under_jit = jax.jit(lambda ids: ctd.turn_lambda(ids, 0.5, 0.9))(jnp.array([[7, 7, 7, 2, 2]]))
    np.testing.assert_allclose(under_jit.discount, found.discount)
    with pytest.raises(ValueError, match=r"lambda_: got 1\.5"):
        ctd.turn_lambda(np.array([[1]]), 1.5)
