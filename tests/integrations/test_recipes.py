"""The recipes for other libraries run as printed, and with one λ their functions agree with ours."""

from __future__ import annotations

import ast
import importlib.util
import re
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

import chunked_td as ctd
from chunked_td.testing import definitions
from helpers.optional import needs

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "other-libraries.md"
BLOCK = re.compile(r'^```py title="(\w+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
RECIPES = dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
NEEDS = {
    "sb3": "stable_baselines3",
    "torch": "torch",
    "torchrl": "torchrl",
    "verl": "torch",
    "openrlhf": "torch",
    "skrl": "torch",
    "rl_games": "torch",
    "slime": "torch",
    "skyrl": "torch",
    "areal": "torch",
    "nemo_rl": "torch",
    "trl": "torch",
}

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


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(NEEDS[name].split(".")[0])) for name in NEEDS])
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


@needs("torchrl")
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


def source_of(module, path):
    """The syntax tree of a file of an installed package, which need not be importable here."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.submodule_search_locations
    return ast.parse((Path(spec.submodule_search_locations[0]) / path).read_text(encoding="utf-8"))


def tokens(seed=0):
    """rewards, values and a mask [B, T] of a batch of answers with padding at the end."""
    rng = np.random.default_rng(seed)
    rewards, values = (torch.tensor(x) for x in rng.normal(size=(2, 5, 12)))
    mask = ctd.length_mask(torch.tensor([12, 1, 7, 4, 9]), 12)
    return rewards * mask, values, mask


def defined(name):
    """A function that a recipe defines, without the lines that need the library."""
    space = {}
    block = ast.parse(RECIPES[name])
    block.body = [
        x
        for x in block.body
        if isinstance(x, ast.FunctionDef) or ast.unparse(x).startswith(("import torch", "import chunked"))
    ]
    exec(compile(block, name, "exec"), space)
    return next(x for x in space.values() if isinstance(x, types.FunctionType))


def their_function(package, path, name, **names):
    """A function of an installed package, compiled from its file alone."""
    tree = source_of(package, path)
    found = [x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef) and x.name == name]
    found[0].decorator_list = []
    space = {"torch": torch, "Tuple": tuple, "Optional": None, **names}
    exec(compile(ast.Module([found[0]], []), name, "exec"), space)
    return space[name]


@needs("verl")
def test_verl_agrees():
    whiten = types.SimpleNamespace(masked_whiten=lambda values, mask: ctd.masked_whiten(values, mask != 0))
    theirs = their_function("verl", "trainer/ppo/core_algos.py", "compute_gae_advantage_return", verl_F=whiten)
    rewards, values, mask = tokens()
    mask[:, 2:4] = False  # what a tool said
    arguments = (rewards * mask, values, mask.double(), 0.98, 0.9)
    for ours, reference in zip(defined("verl")(*arguments, lambda_value=0.9), theirs(*arguments), strict=True):
        torch.testing.assert_close(ours[mask], reference[mask], rtol=0.0, atol=1e-12)


@needs("openrlhf")
def test_openrlhf_agrees():
    path = "trainer/ppo_utils/experience_maker.py"
    theirs = their_function("openrlhf", path, "get_advantages_and_returns")
    rewards, values, mask = tokens()
    arguments = (None, values, rewards, mask, 0.98, 0.9)
    for ours, reference in zip(defined("openrlhf")(*arguments, lambda_value=0.9), theirs(*arguments), strict=True):
        torch.testing.assert_close(ours[mask], reference[mask], rtol=1e-12, atol=1e-12)


@needs("skrl")
@pytest.mark.parametrize("bootstrap", [False, True])
def test_skrl_agrees(bootstrap):
    theirs = their_function("skrl", "agents/torch/ppo/ppo.py", "compute_gae")
    rng = np.random.default_rng(0)
    rewards, values = (torch.tensor(x) for x in rng.normal(size=(2, 9, 3, 1)))
    terminated, truncated = (torch.tensor(x) for x in rng.random((2, 9, 3, 1)) < 0.2)
    given = {"rewards": rewards, "values": values, "terminated": terminated, "truncated": truncated}
    given |= {"last_values": torch.ones(3, 1, dtype=torch.float64), "discount_factor": 0.97, "lambda_coefficient": 0.9}
    given["time_limit_bootstrap"] = bootstrap
    for ours, reference in zip(defined("skrl")(**given), theirs(**given), strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-6, atol=1e-6)  # γ times a bool is float32 there


@needs("rl_games")
def test_rl_games_agrees():
    theirs = their_function("rl_games", "common/a2c_common.py", "discount_values")
    rng = np.random.default_rng(0)
    rewards, values = (torch.tensor(x) for x in rng.normal(size=(2, 9, 3, 1)))
    dones, last_dones = torch.tensor(rng.random((9, 3)) < 0.2).double(), torch.tensor([0.0, 1.0, 0.0]).double()
    agent = types.SimpleNamespace(horizon_length=9, gamma=0.97, tau=0.9)
    arguments = (agent, last_dones, torch.ones(3, 1, dtype=torch.float64), dones, values, rewards)
    torch.testing.assert_close(defined("rl_games")(*arguments), theirs(*arguments), rtol=1e-12, atol=1e-12)


def test_lists_of_answers_become_one_batch():
    """The recipe for slime: each answer alone, with its reward at its last token."""
    rng = np.random.default_rng(0)
    values = [torch.tensor(rng.normal(size=n), dtype=torch.float32) for n in (3, 5)]
    data = {"values": values, "loss_masks": [torch.ones(3), torch.tensor([1, 1, 0, 1, 1])], "rewards": [1.0, 2.0]}
    data["kl"] = [torch.tensor(rng.normal(size=n), dtype=torch.float32) for n in (3, 5)]
    space = {}
    exec(RECIPES["slime"], space)
    space["advantages"](types.SimpleNamespace(lambd=0.9, gamma=0.99, kl_coef=0.1), data)
    for k in range(2):
        rewards = -0.1 * data["kl"][k]
        rewards[-1] += data["rewards"][k]
        mask = (data["loss_masks"][k] != 0)[None]
        alone = ctd.token_gae(rewards[None], values[k][None], mask, 0.9, 1.0, discount=0.99)
        torch.testing.assert_close(data["advantages"][k], alone.advantages[0])
        torch.testing.assert_close(data["returns"][k], alone.targets[0])


def space_of(name):
    space = {}
    exec(RECIPES[name], space)
    return space


def test_areal_agrees_with_the_definition():
    """One λ per answer; the last column is the value after answers that were cut."""
    space, (rewards, values, mask) = space_of("areal"), tokens()
    mask[0, 2:4] = False
    wide = [
        torch.cat([x, torch.full((5, 1), end)], 1) for x, end in ((rewards, 0.0), (values, 7.0), (mask.double(), 0.0))
    ]
    cut, lam = torch.tensor([1.0, 0, 0, 1, 0]).double(), torch.tensor([0.1, 0.5, 0.9, 0.3, 1.0]).double()
    found = space["token_level_gae"](*wide, cut, 0.98, lam)
    rows = [x.numpy() for x in (rewards, values, mask)]
    expected = definitions.token_gae(*rows, 0.98, lam[:, None].numpy(), 7.0 * cut[:, None].numpy())
    np.testing.assert_allclose(found[0][:, :-1].numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(found[1][:, :-1].numpy(), np.where(rows[2], expected + rows[1], 0.0), atol=1e-12)
    lengths = torch.tensor([30, 100, 0])
    np.testing.assert_allclose(space["by_length"]({"timestep_lengths": lengths}).numpy(), [1 / 3, 0.8, 0.0], atol=1e-6)


def test_nemo_rl_agrees_with_the_definition():
    rewards, values, mask = tokens()
    mask[0, 2:4] = False
    estimator = types.SimpleNamespace(gae_lambda=0.9, gae_gamma=0.98)
    for lam in (None, 0.3, torch.tensor([0.1, 0.5, 0.9, 0.3, 1.0]), torch.rand(5, 12)):
        found = space_of("nemo_rl")["_compute_gae"](estimator, rewards, values, mask.double(), lam)
        used = 0.9 if lam is None else lam if isinstance(lam, float) else lam.numpy().reshape(5, -1)
        expected = definitions.token_gae(*(x.numpy() for x in (rewards, values, mask)), 0.98, used)
        np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-6)


@needs("trl")
def test_trl_agrees():
    utils = load("trl.trainer.utils")
    logits, taken = torch.randn(2, 8, 50, dtype=torch.float64), torch.randint(50, (2, 8))
    log_probs, lambdas = ctd.log_probs_and_lambda(logits, taken, "entropy")
    torch.testing.assert_close(log_probs, utils.selective_log_softmax(logits, taken), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(-lambdas.log(), utils.entropy_from_logits(logits), rtol=1e-10, atol=1e-10)


@needs("cleanrl")
def test_cleanrl_agrees():
    """The loop of its script, cut out of the file as it is installed."""
    tree = source_of("cleanrl", "ppo.py")
    loops = (x for x in ast.walk(tree) if isinstance(x, ast.For) and ast.unparse(x.target) == "t")
    (loop,) = (x for x in loops if "lastgaelam" in ast.unparse(x))
    rng = np.random.default_rng(0)
    rewards, values = (torch.tensor(x) for x in rng.normal(size=(2, 16, 3)))
    dones, next_done = torch.tensor(rng.random((16, 3)) < 0.2).double(), torch.tensor([0.0, 1.0, 0.0]).double()
    space = {
        "rewards": rewards,
        "values": values,
        "dones": dones,
        "next_done": next_done,
        "next_value": torch.ones(1, 3, dtype=torch.float64),
        "args": types.SimpleNamespace(num_steps=16, gamma=0.97, gae_lambda=0.9),
        "advantages": torch.zeros_like(rewards),
        "lastgaelam": 0,
    }
    exec(compile(ast.Module([loop], []), "ppo.py", "exec"), space)
    ended = torch.cat([dones[1:], next_done[None]])
    following = torch.cat([values[1:], space["next_value"]])
    ours = ctd.gae(rewards, values, following, ended, False, 0.97, 0.9)
    torch.testing.assert_close(ours, space["advantages"], rtol=1e-12, atol=1e-12)
