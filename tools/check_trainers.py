"""Run `chunked_td.testing` on the advantage functions of the trainers that are installed, and write the table.

    python tools/check_trainers.py            # prints the reports
    python tools/check_trainers.py --write    # and fills both tables in docs/guide/advantages.md

Functions are compiled from the files of the packages alone, so that nothing else of them has to import. Each adapter
states what the function has no argument for.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import importlib.metadata
import importlib.util
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import chunked_td as ctd
from chunked_td.testing import CheckReport, NotSupported, check_gae, check_token_gae
from chunked_td.testing.cases import ROLLOUT_CASES, TOKEN_CASES
from chunked_td.testing.checks import RELATIONS, WIDER

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "advantages.md"


def function_of(package: str, path: str, name: str, **names: Any) -> Callable[..., Any]:
    """A function of an installed package, compiled from its file."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(package)
    tree = ast.parse((Path(spec.submodule_search_locations[0]) / path).read_text(encoding="utf-8"))
    found = next(x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef) and x.name == name)
    found.decorator_list = []
    space: dict[str, Any] = {"torch": torch, "Tuple": tuple, "Optional": None, "np": np, **names}
    exec(compile(ast.Module([found], []), f"{package}: {name}", "exec"), space)
    return space[name]


def one_number(*values: Any) -> None:
    """Raise if one of these is an array: the function takes one number for all steps."""
    if any(np.ndim(value) for value in values):
        raise NotSupported("one number for all steps")


def skrl_adapter(bootstrap: bool) -> Callable[..., Any]:
    """Advantages before they are normalised: returns less values."""
    theirs = function_of("skrl", "agents/torch/ppo/ppo.py", "compute_gae")

    def adapter(rewards, values, next_values, terminated, truncated, discount, lambda_):
        one_number(discount, lambda_)
        given = {"rewards": rewards, "terminated": terminated, "truncated": truncated, "values": values}
        settings = {"discount_factor": discount, "lambda_coefficient": lambda_, "time_limit_bootstrap": bootstrap}
        return theirs(**given, last_values=next_values[-1], **settings)[0] - values

    return adapter


def rl_games_adapter() -> Callable[..., Any]:
    """Its dones say that the step before ended an episode."""
    theirs = function_of("rl_games", "common/a2c_common.py", "discount_values")

    def adapter(rewards, values, next_values, terminated, truncated, discount, lambda_):
        one_number(discount, lambda_)
        dones = (terminated | truncated).to(rewards.dtype)
        before = torch.cat([torch.zeros_like(dones[:1]), dones[:-1]])
        agent = types.SimpleNamespace(horizon_length=len(rewards), gamma=discount, tau=lambda_)
        rows = (next_values[-1][:, None], before, values[..., None], rewards[..., None])
        return theirs(agent, dones[-1], *rows)[..., 0]

    return adapter


def torchrl_adapter() -> Callable[..., Any]:
    """`generalized_advantage_estimate`; its λ is that of the state a step enters."""
    from torchrl.objectives.value.functional import generalized_advantage_estimate as theirs

    def adapter(rewards, values, next_values, terminated, truncated, discount, lambda_):
        one_number(discount, lambda_)
        rows = [x.T[..., None] for x in (values, next_values, rewards, terminated | truncated, terminated)]
        return theirs(discount, lambda_, *rows)[0][..., 0].T

    return adapter


def sb3_adapter() -> Callable[..., Any]:
    """`RolloutBuffer`, with γ V of the state that was cut in added to the reward, as its algorithms do."""
    from gymnasium import spaces
    from stable_baselines3.common.buffers import RolloutBuffer

    def adapter(rewards, values, next_values, terminated, truncated, discount, lambda_):
        one_number(discount, lambda_)
        if rewards.dtype == torch.bfloat16:
            raise NotSupported("its buffers are float32")
        steps, batch = rewards.shape
        box = spaces.Box(-1, 1, (1,))
        buffer = RolloutBuffer(steps, box, box, gae_lambda=lambda_, gamma=discount, n_envs=batch)
        ended, cut = (terminated | truncated).numpy(), (truncated & ~terminated).numpy()
        buffer.rewards[:] = rewards.numpy() + discount * np.where(cut, next_values.numpy(), 0.0)
        buffer.values[:] = values.numpy()
        buffer.episode_starts[1:] = ended[:-1]
        buffer.compute_returns_and_advantage(next_values[-1], ended[-1])
        return torch.as_tensor(buffer.advantages)

    return adapter


def verl_adapter() -> Callable[..., Any]:
    """Whitened advantages."""
    whiten = types.SimpleNamespace(masked_whiten=lambda values, mask: ctd.masked_whiten(values, mask != 0))
    theirs = function_of("verl", "trainer/ppo/core_algos.py", "compute_gae_advantage_return", verl_F=whiten)

    def adapter(rewards, values, mask, discount, lambda_):
        one_number(discount, lambda_)
        return theirs(rewards, values, mask.to(rewards.dtype), discount, lambda_)[0]

    return adapter


def openrlhf_adapter() -> Callable[..., Any]:
    """The method of its experience maker."""
    theirs = function_of("openrlhf", "trainer/ppo_utils/experience_maker.py", "get_advantages_and_returns")

    def adapter(rewards, values, mask, discount, lambda_):
        one_number(discount, lambda_)
        return theirs(None, values, rewards, mask, discount, lambda_)[0]

    return adapter


def ours_of_tokens() -> Callable[..., Any]:
    """`token_gae`."""

    def adapter(rewards, values, mask, discount, lambda_, last_values=0.0, lambda_value=None):
        value = lambda_ if lambda_value is None else lambda_value
        found = ctd.token_gae(rewards, values, mask, lambda_, value, discount=discount, last_values=last_values)
        return found.advantages if lambda_value is None else tuple(found)

    return adapter


ROLLOUTS: dict[str, tuple[str, Callable[[], Callable[..., Any]]]] = {
    "Chunked-TD `gae`": ("chunked-td", lambda: ctd.gae),
    "Stable-Baselines3 `RolloutBuffer`": ("stable-baselines3", sb3_adapter),
    "TorchRL `generalized_advantage_estimate`": ("torchrl", torchrl_adapter),
    "skrl `compute_gae`": ("skrl", lambda: skrl_adapter(False)),
    "skrl `compute_gae`, time_limit_bootstrap": ("skrl", lambda: skrl_adapter(True)),
    "rl_games `discount_values`": ("rl_games", rl_games_adapter),
}
TOKENS: dict[str, tuple[str, Callable[[], Callable[..., Any]]]] = {
    "Chunked-TD `token_gae`": ("chunked-td", ours_of_tokens),
    "verl `compute_gae_advantage_return`": ("verl", verl_adapter),
    "OpenRLHF `get_advantages_and_returns`": ("openrlhf", openrlhf_adapter),
}


def reports() -> dict[tuple[str, str], CheckReport]:
    """{(function, version): its report}, of those that are installed."""
    found = {}
    for name, (package, make) in (ROLLOUTS | TOKENS).items():
        try:
            adapter, version = make(), importlib.metadata.version(package)
        except ImportError as error:
            print(f"{name}: not installed ({error})")
            continue
        rollouts = name in ROLLOUTS
        check: Any = check_gae if rollouts else check_token_gae
        settings = {} if rollouts else {"whitened": package == "verl"}
        found[name, version] = check(adapter, array=torch.as_tensor, **settings)
    return found


def table(found: dict[tuple[str, str], CheckReport]) -> str:
    """A row per function."""
    lines = ["| function | version | passed | failed | no argument for it |", "|---|---|---|---|---|"]
    for (name, version), report in found.items():
        lists = (", ".join(each) or "none" for each in (report.failed, report.not_expressible))
        lines.append(f"| {name} | {version} | {len(report.passed)} | " + " | ".join(lists) + " |")
    return "\n".join(lines)


def cases() -> str:
    """What each check covers."""
    names = {"check_gae": ROLLOUT_CASES, "check_token_gae": TOKEN_CASES | WIDER, "check_relations": RELATIONS}
    rows = [f"| `{check}` | {', '.join(found)} |" for check, found in names.items()]
    return "\n".join(["| check | cases |", "|---|---|", *rows])


def filled(page: str, name: str, text: str) -> str:
    """The page with that text between its markers."""
    before, _, rest = page.partition(f"<!-- {name} -->\n")
    return f"{before}<!-- {name} -->\n{text}\n<!-- /{name} -->{rest.partition(f'<!-- /{name} -->')[2]}"


def main() -> None:
    """Print every report; with --write fill the page's tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    found = reports()
    for (name, version), report in found.items():
        print(f"\n== {name} {version}\n{report}")
    if write:
        page = filled(PAGE.read_text("utf-8"), "cases", f"\n{cases()}\n")
        today = datetime.date.today().isoformat()
        PAGE.write_text(filled(page, "trainers", f"Checked on {today}.\n\n{table(found)}\n"), "utf-8")


if __name__ == "__main__":
    main()
