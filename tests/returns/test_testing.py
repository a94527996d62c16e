"""`chunked_td.testing`: right functions pass in every backend, and each planted mistake fails the case named for it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.testing import NotSupported, check_gae, check_relations, check_token_gae
from helpers.return_backends import torch

ARRAYS = {"numpy": np.asarray, "jax": jnp.asarray} | ({"torch": torch.as_tensor} if torch is not None else {})


# ---- right functions: no false alarm


def ours_tokens(rewards, values, mask, discount, lambda_, last_values=0.0, lambda_value=None):
    both = lambda_ if lambda_value is None else lambda_value
    found = ctd.token_gae(rewards, values, mask, lambda_, both, discount=discount, last_values=last_values)
    return found.advantages if lambda_value is None else tuple(found)


def by_lambda_returns(rewards, values, next_values, terminated, truncated, discount, lambda_):
    """The same advantages from λ-returns: γ_t = 0 at terminations, λ_t = 0 at cuts."""
    backend = {np.ndarray: np}.get(type(rewards))
    if backend is None:
        raise NotSupported("NumPy only")
    wide = rewards.astype(np.float64)
    discount_t = np.where(terminated, 0.0, discount)
    next_lambda = np.broadcast_to(lambda_, rewards.shape)[1:]
    lambda_t = np.where(truncated, 0.0, np.concatenate([next_lambda, np.zeros_like(rewards[:1])]))
    v_t = np.where(terminated, 0.0, next_values)
    return ctd.lambda_returns(wide, discount_t, v_t, lambda_t) - values


def looped(rewards, values, next_values, terminated, truncated, discount, lambda_):
    """The recursion as most trainers write it, one step after the other, with any of the three libraries."""
    out, later = [None] * len(rewards), 0.0
    lambda_, discount = 0.0 * rewards + lambda_, 0.0 * rewards + discount
    for t in reversed(range(len(rewards))):
        going_on = 1.0 - 1.0 * terminated[t]
        ahead = next_values[t] * going_on
        weight = lambda_[t + 1] if t + 1 < len(rewards) else 0.0
        delta = rewards[t] + discount[t] * ahead - values[t]
        later = out[t] = delta + discount[t] * weight * going_on * (1.0 - 1.0 * truncated[t]) * later
    return np.array([np.asarray(x.tolist()) for x in out])


@pytest.mark.parametrize("name", ARRAYS)
def test_right_functions_raise_no_alarm(name):
    array = ARRAYS[name]
    report = check_gae(ctd.gae, array=array)
    assert (report.failed, report.not_expressible) == ({}, [])
    report = check_token_gae(ours_tokens, array=array)
    assert (report.failed, report.not_expressible) == ({}, [])
    report.raise_for_failures()
    found = check_gae(by_lambda_returns, array=array)
    assert found.failed == {}
    assert (name == "numpy") == (found.not_expressible == [])
    assert set(check_gae(looped, array=array).failed) <= {"16 bits"}  # it multiplies in the arrays' precision


def test_whitened_advantages_may_divide_by_n_or_by_one_less():
    def whiten(ddof):
        def f(rewards, values, mask, discount, lambda_):
            found, kept = ours_tokens(rewards, values, mask, discount, lambda_), mask != 0
            mean, deviation = found[kept].mean(), found[kept].std(ddof=ddof)
            return np.where(kept, (found - mean) / (deviation + 1e-8), 0.0)

        return f

    for ddof in (0, 1):
        assert check_token_gae(whiten(ddof), whitened=True, draws=2).failed == {}


# ---- planted mistakes


def planted_gae(mistake):
    def f(rewards, values, next_values, terminated, truncated, discount, lambda_):
        rewards, values, next_values = (np.asarray(x, np.float64) for x in (rewards, values, next_values))
        discount, lambda_ = (np.broadcast_to(x, rewards.shape).astype(float) for x in (discount, lambda_))
        terminated, truncated = np.asarray(terminated), np.asarray(truncated)
        out, later = np.zeros_like(rewards), 0.0
        for t in reversed(range(len(rewards))):
            ended, cut = terminated[t], truncated[t]
            stop, zero = ended | cut, ended
            if mistake == "truncation taken for termination":
                zero = stop
            if mistake == "termination bootstraps":
                zero = np.zeros_like(ended)
            if mistake == "advantages pass a cut":
                stop = ended
            if mistake == "a cut bootstraps from the next episode":
                ahead = np.where(
                    cut & ~ended & (t + 1 < len(values)), values[min(t + 1, len(values) - 1)], next_values[t]
                )
            else:
                ahead = next_values[t]
            here = t if mistake == "λ one step early" else min(t + 1, len(rewards) - 1)
            lam = lambda_[0] if mistake == "one λ for all steps" else lambda_[here]
            gamma = discount[here] if mistake == "γ of the next step" else discount[t]
            delta = rewards[t] + gamma * np.where(zero, 0.0, ahead) - values[t]
            if mistake == "no bootstrap at the end" and t + 1 == len(rewards):
                delta = rewards[t] - values[t]
            later = out[t] = delta + np.where(stop, 0.0, gamma * lam * later)
        return out

    return f


PLANTED_GAE = {
    "truncation taken for termination": {"truncated", "truncated at the end"},
    "termination bootstraps": {"terminated", "terminated at the end", "both flags"},
    "advantages pass a cut": {"truncated"},
    "a cut bootstraps from the next episode": {"truncated"},
    "λ one step early": {"λ per step"},
    "one λ for all steps": {"λ per step"},
    "γ of the next step": {"γ per step"},
    "no bootstrap at the end": {"plain", "one step"},
}


@pytest.mark.parametrize("mistake", PLANTED_GAE)
def test_planted_mistakes_in_rollouts_are_caught_by_name(mistake):
    failed = set(check_gae(planted_gae(mistake)).failed)
    assert PLANTED_GAE[mistake] <= failed
    if mistake != "no bootstrap at the end":
        assert "plain" not in failed
    assert check_gae(planted_gae("")).failed == {}


def planted_tokens(mistake):
    def f(rewards, values, mask, discount, lambda_):
        rewards, values = (np.asarray(x, np.float64) for x in (rewards, values))
        discount, lambda_ = (np.broadcast_to(x, rewards.shape).astype(float) for x in (discount, lambda_))
        there = np.asarray(mask) != 0
        if mistake == "integer masks invert as integers":
            there = ~np.asarray(mask) == 0 if np.asarray(mask).dtype.kind == "i" else there
        out = np.zeros_like(rewards)
        for b in range(len(rewards)):
            later, value, weight, spilt = 0.0, 0.0, 0.0, 0.0
            for t in reversed(range(rewards.shape[1])):
                if not there[b, t]:
                    if mistake == "padding leaks":
                        later, value, weight = (
                            rewards[b, t] + discount[b, t] * value - values[b, t],
                            values[b, t],
                            lambda_[b, t],
                        )
                    elif mistake == "masked by multiplication":
                        value = 0.0 * values[b, t]
                    elif mistake == "tool tokens decay credit":
                        later, value = discount[b, t] * lambda_[b, t] * later, discount[b, t] * value
                    if mistake != "rewards at masked tokens are dropped":
                        spilt += rewards[b, t] if np.isfinite(rewards[b, t]) else 0.0
                    continue
                delta = rewards[b, t] + spilt + discount[b, t] * value - values[b, t]
                later = out[b, t] = delta + discount[b, t] * weight * later
                value, weight, spilt = values[b, t], lambda_[b, t], 0.0
        if mistake == "whitened over padding":
            out = (out - out.mean()) / (out.std() + 1e-8)
        if mistake == "divided by the width":
            out = out / rewards.shape[1] * 4
        return out

    return f


PLANTED_TOKENS = {
    "padding leaks": {"padding on the right", "tool tokens", "NaN under the mask"},
    "masked by multiplication": {"NaN under the mask", "tool tokens"},
    "tool tokens decay credit": {"tool tokens"},
    "rewards at masked tokens are dropped": {"reward at a masked token"},
    "divided by the width": {"wider batch"},
    "integer masks invert as integers": {"integer mask"},
}


@pytest.mark.parametrize("mistake", PLANTED_TOKENS)
def test_planted_mistakes_in_tokens_are_caught_by_name(mistake):
    assert PLANTED_TOKENS[mistake] <= set(check_token_gae(planted_tokens(mistake)).failed)
    report = check_token_gae(planted_tokens(""))
    assert report.failed == {}
    assert report.not_expressible == ["two λ", "cut answers"]


def test_whitening_over_padding_is_caught():
    failed = check_token_gae(planted_tokens("whitened over padding"), whitened=True).failed
    assert {"padding on the right", "wider batch"} <= set(failed)
    assert "plain" not in failed


def test_the_report_says_at_which_discount_and_lambda_a_mistake_matters():
    example = check_token_gae(planted_tokens("tool tokens decay credit")).failed["tool tokens"]
    assert (1.0, 1.0) in example.fine_at
    assert (0.9, 0.5) in example.matters_at
    assert example.arguments["rewards"].shape == (1, 6)
    report = check_token_gae(planted_tokens("tool tokens decay credit"))
    text = str(report)
    assert "FAILED          tool tokens" in text
    assert "wrong at (γ 0.9, λ 0.5), (γ 0.99, λ 0.95), (γ 1, λ 0.95); right at (γ 1, λ 1)" in text
    with pytest.raises(AssertionError, match="1 of 17 cases failed"):
        report.raise_for_failures()


def test_exceptions_are_findings_and_so_is_a_wrong_shape():
    def broken(*arguments):
        raise KeyError("mask")

    report = check_gae(broken)
    assert not report.passed
    assert "KeyError: 'mask'" in str(report)
    assert len(check_gae(lambda *arguments: np.zeros(3)).failed) == len(report.failed)
    with pytest.raises(TypeError, match="f: got 3, takes a function"):
        check_gae(3)


def test_relations_run_on_a_whole_training_step():
    def step(mistake):
        def loss(rewards, values, mask):
            found = planted_tokens(mistake)(rewards, values, mask, 0.9, 0.9)
            per_token = (mask != 0) * found**2
            return per_token.sum() / (found.size if mistake == "mean over padding" else (mask != 0).sum())

        return loss

    assert check_relations(step("")).failed == {}
    assert set(check_relations(step("mean over padding")).failed) == {
        "more padding on the right",
        "more padding on the left",
    }
    assert "values under the mask" in check_relations(step("padding leaks")).failed
    assert check_relations(lambda r, v, m: planted_tokens("")(r, v, m, 0.9, 0.9)).failed == {}
    assert "order of rows" in check_relations(lambda r, v, m: (r * np.arange(len(r))[:, None] * (m != 0)).sum()).failed
