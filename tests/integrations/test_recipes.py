"""The recipes for other libraries run as printed, and TorchRL's functions agree with ours."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import chunked_td as ctd

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "other-libraries.md"
BLOCK = re.compile(r"^```py (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
RECIPES = dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
NEEDS = {"sb3": "stable_baselines3", "torch": "torch", "torchrl": "torchrl"}

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def load(module):
    """Import a library, or skip; its own imports use what others have deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(module, reason=f"{module} is not installed")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", NEEDS)
def test_the_recipe_runs(name):
    load(NEEDS[name])
    space = {"__name__": "__main__"}
    exec(compile(RECIPES[name], f"{PAGE.name}: {name}", "exec"), space)
    if name == "torchrl":
        assert space["data"]["advantage"].shape == (4, 32, 1)
    if name == "torch":
        assert space["advantages"].shape == (128, 4)


def test_every_recipe_is_run():
    assert set(RECIPES) == set(NEEDS)
    assert "```python" not in PAGE.read_text(encoding="utf-8")


def test_torchrl_agrees():
    functional = load("torchrl.objectives.value.functional")
    rng = np.random.default_rng(0)
    batch, steps = 5, 5
    value, following, reward, lam = (torch.tensor(x) for x in rng.normal(size=(4, batch, steps)))
    lam = lam.abs().clamp(max=1.0)
    terminated, truncated = (torch.tensor(x) for x in rng.random((2, batch, steps)) < 0.2)
    done = terminated | truncated
    following[:, :-1] = torch.where(done[:, :-1], following[:, :-1], value[:, 1:])
    entered = torch.cat([lam[:, 1:], lam[:, -1:]], dim=1)  # theirs is the λ of the state a step enters
    theirs = functional.td_lambda_return_estimate(
        0.9, *(x[..., None] for x in (entered, following, reward, done, terminated))
    )[..., 0]
    ours = ctd.gae(reward, value, following, terminated, truncated, 0.9, lam, time_axis=1) + value
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    arguments = [x[..., None] for x in (entered, value, following, reward, done, terminated)]
    vectorised = functional.vec_generalized_advantage_estimate(0.9, *arguments)[1][..., 0]
    torch.testing.assert_close(vectorised, ours, rtol=1e-12, atol=1e-12)
    serial = functional.generalized_advantage_estimate(0.9, *arguments)[1][..., 0]
    torch.testing.assert_close(serial, ours, rtol=1e-6, atol=1e-6)  # this one rounds to float32 on the way
