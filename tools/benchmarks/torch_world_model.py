"""One run with a network: ours against a plain PyTorch loop, and against nothing but the optimiser steps.

    python tools/benchmarks/torch_world_model.py                  # both problems, the paper's sizes, 2 cores
    python tools/benchmarks/torch_world_model.py --problems key-to-door --episodes 20 --rounds 3

Three loops are timed in turn, round by round, so that other load on the machine meets all of them:

  torch   one transition at a time, as the paper describes it: store in a ring, draw a batch, Adam step, read λ. The
          environment and the tabular learner are ours (`agent.learn`), so only the network's side differs.
  ours    the same run as the lab does it for network arms: `chunked_td.simulation.networks`, one seed.
  bare    a compiled JAX scan over the same number of optimiser steps on batches made in advance, and nothing else, with
          Adam in one pass or in two; the faster counts.

Time per episode, best of the rounds, compilation and the first episodes left out. PyTorch is timed with one
thread and with one per core, and the better counts. What matters are two ratios: torch / ours and ours / bare.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from itertools import pairwise
from typing import Any

import numpy as np

TARGETS = {"torch / ours": (3.0, "at least"), "ours / bare": (1.3, "at most")}


def problem(name: str) -> tuple[Any, Any, dict[str, Any], type, str]:
    """(dynamics, config, settings of the run, learner class, id) of one of the paper's network experiments."""
    import chunked_td as ctd
    from chunked_td.envs.dynamics import AccumulatedCharge, KeyToDoor
    from chunked_td.lab.catalogue import load_protocols

    if name == "accumulated-charge":
        dynamics, learner = AccumulatedCharge.make(), "sarsa"
        source, cls = ctd.ForwardLambda(), ctd.ChunkedSarsa
    else:
        dynamics, learner = KeyToDoor.make(), "expected_sarsa"
        source, cls = ctd.FactoredLambda(), ctd.FactoredChunkedExpectedSarsa
    network = next(arm.model for arm in load_protocols([name])[0].arms if arm.kind == "network")
    config = network.config(dynamics)
    settings = {
        "config": config,
        "noisy_steps": network.noisy_steps,
        "learner": learner,
        "epsilon": 0.1,
        "discount": 1.0,
    }
    return dynamics, config, settings | {"source": source}, cls, name


class TorchModel:
    """A world model in PyTorch, written plainly from App. A.2 and A.3; follows `chunked_td.models.Model`."""

    def __init__(self, config: Any, seed: int = 0) -> None:
        import torch

        self.torch, self.config = torch, config
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        c, coded = len(config.nvec), config.embedding or config.actions
        sizes = [c + coded, *config.hidden]
        layers: list[Any] = []
        for a, b in pairwise(sizes):
            layers += [torch.nn.Linear(a, b), torch.nn.Tanh()]
        self.body = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], config.outputs))
        self.embedding = torch.nn.Embedding(config.actions, config.embedding) if config.embedding else None
        parameters = [*self.body.parameters(), *(self.embedding.parameters() if self.embedding else ())]
        self.adam = torch.optim.Adam(parameters, lr=config.learning_rate, weight_decay=config.weight_decay)
        self.top = torch.tensor(np.array(config.nvec) - 1, dtype=torch.float32)
        self.states = np.zeros((config.capacity, c), np.int64)
        self.actions = np.zeros(config.capacity, np.int64)
        self.following = np.zeros((config.capacity, c), np.int64)
        self.n = 0

    def logits(self, states: Any, actions: Any) -> Any:
        """Output of the network for int64[rows, c] and int64[rows]."""
        code = self.embedding(actions) if self.embedding else self._one_hot(actions)
        return self.body(self.torch.cat([states / self.top, code], 1))

    def _one_hot(self, actions: Any) -> Any:
        return self.torch.nn.functional.one_hot(actions, self.config.actions).float()

    def log_likelihood(self, states: Any, actions: Any, following: Any) -> Any:
        """log P̂ᵢ(x'ⁱ|x, a), float32[rows, c], head by head."""
        F, out, start, result = self.torch.nn.functional, self.logits(states, actions), 0, []
        for i, head in enumerate(self.config.heads):
            part = out[:, start : start + head.logits]
            start += head.logits
            if head.kind == "boolean":
                loss = F.binary_cross_entropy_with_logits(part[:, 0], following[:, i].float(), reduction="none")
            else:
                target = following[:, i] - states[:, i] if head.kind == "difference" else following[:, i]
                loss = F.cross_entropy(part, target, reduction="none")
            result.append(-loss)
        return self.torch.stack(result, 1)

    def observe(self, state: int, action: int, reward: Any, next_state: int, terminated: bool) -> None:
        """Store the transition; train if it is time."""
        config, i = self.config, self.n % self.config.capacity
        self.states[i], self.actions[i] = np.unravel_index(state, config.nvec), action
        self.following[i] = np.unravel_index(next_state, config.nvec)
        self.n += 1
        if self.n % config.train_every or self.n <= config.batch_size:
            return
        chosen = self.rng.integers(0, min(self.n, config.capacity), config.batch_size)
        tensors = (self.torch.from_numpy(part[chosen]) for part in (self.states, self.actions, self.following))
        self.adam.zero_grad()
        loss = -self.log_likelihood(*tensors).mean()
        loss.backward()
        self.adam.step()

    def component_probabilities(self, state: int, next_state: int, reward: Any) -> np.ndarray:
        """P̂(x'ⁱ|x, a) for every action."""
        torch, config = self.torch, self.config
        point = torch.tensor(np.array(np.unravel_index(state, config.nvec))).expand(config.actions, -1)
        after = torch.tensor(np.array(np.unravel_index(next_state, config.nvec))).expand(config.actions, -1)
        with torch.no_grad():
            return self.log_likelihood(point, torch.arange(config.actions), after).double().exp().numpy()

    def probabilities(self, state: int, next_state: int, reward: Any) -> np.ndarray:
        """P̂(x'|x, a) for every action."""
        return self.component_probabilities(state, next_state, reward).prod(1)


class Agent:
    """Episodes of a learner with a model object, one transition at a time."""

    def __init__(self, name: str, make_model: Any) -> None:
        from chunked_td.envs.face import DynamicsEnv

        dynamics, config, settings, cls, _ = problem(name)
        self.env: Any = DynamicsEnv(dynamics)
        self.agent = cls(
            self.env,
            model=make_model(self.env, config),
            discount=settings["discount"],
            epsilon=settings["epsilon"],
            view="offline",
        )

    def play(self, episodes: int) -> None:
        """So many episodes more."""
        self.agent.learn(self.env, episodes, progress=False)


class Bare:
    """Only the optimiser steps of an episode, as one compiled scan over batches made in advance."""

    def __init__(self, name: str, staged: bool) -> None:
        import equinox as eqx
        import jax
        import jax.numpy as jnp

        from chunked_td.models.neural import networks
        from chunked_td.models.neural.world import adam_change

        dynamics, config, _, _, _ = problem(name)
        steps = dynamics.horizon // config.train_every
        rng = np.random.default_rng(0)
        shape = (4, steps, config.batch_size)
        state = rng.integers(0, np.array(config.nvec), (*shape, len(config.nvec)))
        features = networks.features(config, jnp.asarray(state), jnp.asarray(rng.integers(0, config.actions, shape)))
        self.data = [(features[i], jnp.zeros((*shape[1:], len(config.nvec)), jnp.int32)) for i in range(4)]
        network, static = eqx.partition(networks.CategoricalNetwork(config, key=jax.random.key(0)), eqx.is_array)
        adam = networks.optimiser(config)
        self.carry, self.jax = (network, adam.init(network)), jax

        def step(carry: Any, batch: Any) -> Any:
            def loss(network: Any) -> Any:
                logits = eqx.combine(network, static)(batch[0])
                return networks.mean_cross_entropy(config, logits, batch[1])

            change, moments = adam.update(jax.grad(loss)(carry[0]), carry[1], carry[0])
            if staged:
                moments = jax.lax.optimization_barrier(moments)
                change = adam_change(config, moments)
            return (eqx.apply_updates(carry[0], change), moments), None

        self.program = jax.jit(lambda carry, data: jax.lax.scan(step, carry, data)[0], donate_argnums=0)

    def play(self, episodes: int) -> None:
        """The optimiser steps of so many episodes."""
        for k in range(episodes):
            self.carry = self.program(self.carry, self.data[k % 4])
        self.jax.block_until_ready(self.carry)


def compare(name: str, episodes: int, rounds: int, single: bool) -> dict[str, float]:
    """Milliseconds per episode of each loop: the best of the rounds.

    The lab's run reports after every round; the others have their turns while it waits for that to return.
    """
    import torch

    from chunked_td.models.neural import NeuralModel
    from chunked_td.simulation.networks import ArmRuns, run_together

    others: dict[str, Any] = {
        "torch": Agent(name, lambda env, config: TorchModel(config)),
    }
    others |= {"bare": Bare(name, False), "bare, two passes": Bare(name, True)}
    others["torch, 1 thread"] = others["torch"]
    if single:
        others["NeuralModel"] = Agent(name, lambda env, config: NeuralModel(env, config))
    for loop in others.values():
        loop.play(2)
    times: dict[str, list[float]] = {key: [] for key in ("ours", *others)}
    cores, begin = torch.get_num_threads(), 0.0

    def turn(done: int) -> None:
        nonlocal begin
        if done > episodes:  # the first round is for warming up
            times["ours"].append(time.perf_counter() - begin)
            for key, loop in others.items():
                torch.set_num_threads(1 if key == "torch, 1 thread" else cores)
                begin = time.perf_counter()
                loop.play(episodes)
                times[key].append(time.perf_counter() - begin)
        begin = time.perf_counter()

    dynamics, _, settings, _, _ = problem(name)
    arm = ArmRuns(settings.pop("source"), np.array([0]), np.array([0.1]))
    marks = [episodes * k for k in range(1, rounds + 2)]
    run_together(dynamics, [arm], episodes=marks[-1], record_at=marks, report=turn, **settings)
    best = {key: 1000 * min(found) / episodes for key, found in times.items()}
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", default="accumulated-charge,key-to-door")
    parser.add_argument("--episodes", type=int, default=10, help="episodes per round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--single", action="store_true", help="time NeuralModel in agent.learn too")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("this comparison needs PyTorch, which is not installed: pip install torch (the CPU build will do)")
    load = os.getloadavg()[0]
    print(f"torch {torch.__version__} with {torch.get_num_threads()} threads, {os.cpu_count()} cores, load {load:.1f}")
    for name in options.problems.split(","):
        found = compare(name, options.episodes, options.rounds, options.single)
        print(f"{name}: " + ", ".join(f"{key} {value:.1f}" for key, value in found.items()) + " ms per episode")
        found["torch"] = min(found["torch"], found["torch, 1 thread"])  # two threads can be slower than one
        found["bare"] = min(found["bare"], found["bare, two passes"])
        for ratio, (target, kind) in TARGETS.items():
            above, below = ratio.split(" / ")
            print(f"  {ratio}: {found[above] / found[below]:.2f} (wanted: {kind} {target})")
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
