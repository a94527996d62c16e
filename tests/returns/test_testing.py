"""`chunked_td.testing`: right functions pass in every backend, and each planted mistake fails the case named for it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.testing import check_gae, check_relations, check_token_gae
from helpers.return_backends import torch

ARRAYS = {"numpy": np.asarray, "jax": jnp.asarray} | ({"torch": torch.as_tensor} if torch is not None else {})


# ---- right functions: no false alarm


def ours_tokens(rewards, values, mask, discount, lambda_, last_values=0.0, lambda_value=None):
    both = lambda_ if lambda_value is None else lambda_value
    found = ctd.token_gae(rewards, values, mask, lambda_, both, discount=discount, last_values=last_values)
    return found.advantages if lambda_value is None else tuple(found)


def namespace(x):
    """The library of an array, with what the three have in common."""
    return jnp if hasattr(x, "at") and not isinstance(x, np.ndarray) else torch if hasattr(x, "detach") else np


def wide(x, like):
    """An array or number in the precision to add up in, in full shape."""
    xp = namespace(like)
    zero = xp.zeros(like.shape) if xp is not torch else torch.zeros(like.shape)
    return zero + x


def per_step(rewards, values, next_values, terminated, truncated, discount, lambda_):
    """δ and the factor that weighs the advantage of the next step, [T, B] each."""
    xp = namespace(rewards)
    rewards, values, next_values, discount, lambda_ = (
        wide(x, rewards) for x in (rewards, values, next_values, discount, lambda_)
    )
    delta = rewards + discount * xp.where(terminated, 0.0 * next_values, next_values) - values
    factor = discount * xp.concatenate([lambda_[1:], 0.0 * lambda_[:1]], **{"axis" if xp is not torch else "dim": 0})
    return xp, delta, xp.where(terminated | truncated, 0.0 * factor, factor)


def looped(*given):
    """One step after the other, as most trainers do it."""
    xp, delta, factor = per_step(*given)
    later, out = 0.0 * delta[0], []
    for t in reversed(range(len(delta))):
        later = delta[t] + factor[t] * later
        out.append(later)
    return xp.stack(out[::-1])


def summed(*given):
    """Aₜ = Σₖ (products of factors) δₖ, written out."""
    _, *both = per_step(*given)
    delta, factor = (np.asarray(x.tolist()) for x in both)
    rows = range(len(delta))
    weights = [np.cumprod(np.concatenate([np.ones_like(factor[:1]), factor[t:-1]]), axis=0) for t in rows]
    return np.stack([(weights[t] * delta[t:]).sum(0) for t in rows])


def doubled(*given):
    """Stretches of 1, 2, 4, … steps joined."""
    xp, b, a = per_step(*given)
    reach = 1
    while reach < len(b):
        pad = 0.0 * b[:reach]
        b, a = (
            b + a * xp.concatenate([b[reach:], pad]),
            a * xp.concatenate([a[reach:], pad]),
        )
        reach *= 2
    return b


def solved(*given):
    """(1 − F) A = δ, with the factors above the diagonal: one linear system per column."""
    _, delta, factor = per_step(*given)
    columns = []
    for b in range(delta.shape[1]):
        above = np.diag(np.asarray(factor[:-1, b].tolist(), np.float64), 1)
        columns.append(np.linalg.solve(np.eye(len(delta)) - above, np.asarray(delta[:, b].tolist())))
    return np.stack(columns, axis=1)


def batch_major(rewards, values, next_values, terminated, truncated, discount, lambda_):
    turned = [x.T for x in (rewards, values, next_values, terminated, truncated)]
    discount, lambda_ = (x.T if np.ndim(x) else x for x in (discount, lambda_))
    return ctd.gae(*turned, discount, lambda_, time_axis=1).T


def by_lambda_returns(rewards, values, next_values, terminated, truncated, discount, lambda_):
    """The same advantages from λ-returns: γ_t = 0 at terminations, λ_t = 0 at cuts."""
    xp = namespace(rewards)
    rewards, values, next_values, discount, lambda_ = (
        wide(x, rewards) for x in (rewards, values, next_values, discount, lambda_)
    )
    lambda_t = xp.concatenate([lambda_[1:], 0.0 * lambda_[:1]])
    discount_t, lambda_t = xp.where(terminated, 0.0 * discount, discount), xp.where(truncated, 0.0 * lambda_t, lambda_t)
    return ctd.lambda_returns(rewards, discount_t, xp.where(terminated, 0.0 * values, next_values), lambda_t) - values


def compacted(rewards, values, mask, discount, lambda_):
    """Each row without its masked tokens, as a rollout that terminates."""
    rewards, values, mask, discount, lambda_ = (
        np.asarray(x.tolist() if hasattr(x, "tolist") else x, float) for x in (rewards, values, mask, discount, lambda_)
    )
    out = np.zeros(rewards.shape)
    discount, lambda_ = np.broadcast_to(discount, out.shape), np.broadcast_to(lambda_, out.shape)
    for b, kept in enumerate(mask != 0):
        places = np.flatnonzero(kept)
        if len(places) == 0:
            continue
        own = np.searchsorted(places, np.arange(len(kept)), side="right") - 1
        r = np.zeros(len(places))
        np.add.at(r, own[own >= 0], np.where(np.isfinite(rewards[b]), rewards[b], 0.0)[own >= 0])
        v, ends = values[b, places], np.arange(len(places)) == len(places) - 1
        none, after = np.zeros(len(places), bool), np.append(v[1:], 0.0)
        rows = [x[:, None] for x in (r, v, after, ends, none, discount[b, places], lambda_[b, places])]
        out[b, places] = looped(*rows)[:, 0]
    return out


def carried(rewards, values, mask, discount, lambda_):
    """A loop over tokens that keeps what it carries at masked ones."""
    xp, there = namespace(rewards), mask != 0
    rewards, values = (xp.where(xp.isfinite(x), x, 0.0 * mask) for x in (wide(y, rewards) for y in (rewards, values)))
    discount, lambda_ = wide(discount, rewards), wide(lambda_, rewards)
    later, value, weight, spilt, out = (0.0 * rewards[:, 0] for _ in range(4)), None, None, None, []
    later, value, weight, spilt = later
    for t in reversed(range(rewards.shape[1])):
        here = there[:, t]
        new = rewards[:, t] + spilt + discount[:, t] * (value + weight * later) - values[:, t]
        out.append(xp.where(here, new, 0.0 * new))
        spilt = xp.where(here, 0.0 * spilt, spilt + rewards[:, t])
        later, value = xp.where(here, new, later), xp.where(here, values[:, t], value)
        weight = xp.where(here, lambda_[:, t], weight)
    return xp.stack(out[::-1], 1)


ROLLOUTS = (ctd.gae, looped, summed, doubled, solved, batch_major, by_lambda_returns)
TOKENS = (ours_tokens, compacted, carried)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("f", ROLLOUTS + TOKENS, ids=lambda f: f.__name__)
def test_ten_right_functions_raise_no_alarm(name, f):
    draws = 1 if name == "jax" else 3  # it compiles every shape
    report = (check_token_gae if f in TOKENS else check_gae)(f, array=ARRAYS[name], draws=draws)
    report.raise_for_failures()
    assert set(report.not_expressible) <= ({"two λ", "cut answers"} if f in TOKENS else set())
    assert len(report.passed) + len(report.not_expressible) == len(report.about)


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


def test_the_example_is_the_smallest_that_fails():
    """A mistake that needs three columns: no small example has them, so it is the smallest of the random ones."""

    def mirrored(*given):
        found = looped(*given)
        return found[:, ::-1] if found.shape[1] > 2 else found

    report = check_gae(mirrored, draws=10)
    sizes = {case: example.arguments["rewards"].shape for case, example in report.failed.items()}
    assert 2 < sizes["plain"][1] <= 4
    assert sizes["one step"] == (1, 3)
    assert max(rows * columns for rows, columns in sizes.values()) <= 16
    assert "float64[" not in str(report)


def test_a_call_that_cannot_work_is_explained_once():
    def wants_lists(rewards, *_):
        return rewards.append(1)

    report = check_gae(wants_lists)
    text = str(report)
    assert text.count("AttributeError") == 1
    assert "Every other case raised the same." in text
    assert text.endswith("pass array=torch.as_tensor or array=jax.numpy.asarray.")
    assert "array=" not in str(check_gae(wants_lists, array=np.copy))


def test_functions_get_float32():
    seen = []

    def note(rewards, *_):
        seen.append(rewards.dtype)
        return rewards

    check_gae(note)
    assert set(seen) == {np.dtype(np.float32), np.dtype(np.float16)}


PAGE = Path(__file__).parents[2] / "docs" / "guide" / "advantages.md"
ON_THE_PAGE = {
    "truncation taken for termination": "truncated",
    "a cut bootstraps from the next episode": "truncated",
    "advantages pass a cut": "truncated",
    "termination bootstraps": "terminated",
    "no bootstrap at the end": "plain",
    "λ one step early": "λ per step",
    "tool tokens decay credit": "tool tokens",
    "padding leaks": "padding on the right",
    "rewards at masked tokens are dropped": "reward at a masked token",
    "whitened over padding": "padding on the right",
}


def test_the_page_shows_the_numbers_of_the_check():
    page = PAGE.read_text(encoding="utf-8")
    for mistake, case in ON_THE_PAGE.items():
        if mistake in PLANTED_GAE:
            report = check_gae(planted_gae(mistake))
        else:
            report = check_token_gae(planted_tokens(mistake), whitened=mistake.startswith("whitened"))
        for numbers in (report.failed[case].got, report.failed[case].expected):
            assert "[" + ", ".join(f"{x:.4g}" for x in numbers.ravel()) + "]" in page, mistake
    block = page.split('```py title="adapter"\n')[1].split("```")[0]
    if torch is not None:
        exec(compile(block, PAGE.name, "exec"), {})


def test_the_page_lists_every_case():
    spec = importlib.util.spec_from_file_location("check_trainers", PAGE.parents[2] / "tools" / "check_trainers.py")
    pytest.importorskip("torch", reason="PyTorch is not installed")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.cases() in PAGE.read_text(encoding="utf-8")
