"""A fleet of PPO agents: ours with a fixed λ and with λ sources, and rejax's, a public PPO in JAX with one λ.

    python tools/benchmarks/ppo_fleet.py                       # 100 agents on CartPole-v1
    python tools/benchmarks/ppo_fleet.py --agents 10 --steps 10240

rejax takes part where it is installed (0.1.3 needs gymnax below 1). All train on CartPole with 16 environments, 64
steps, 4 epochs of 4 minibatches and two hidden layers of 64, each fleet as one compiled program. Programs take turns,
the fastest turn counts. They differ in detail: our layers are normalised, theirs are not; we count λ and errors. Ours
without normalisation takes part, too: it saves about as much time as rejax does.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

ENVIRONMENTS, STEPS, EPOCHS, MINIBATCHES = 16, 64, 4, 4


def ours(source: str, agents: int, steps: int) -> tuple[Any, Any]:
    """A compiled program and its arguments."""
    from chunked_td.deep.lambdas import read_source
    from chunked_td.deep.training import make_agent, start_fleet, train_fleet
    from chunked_td.envs.tasks import make_task_by_name

    settings = {"environments": ENVIRONMENTS, "steps": STEPS, "epochs": EPOCHS, "minibatches": MINIBATCHES}
    agent = make_agent("ppo", make_task_by_name("cart-pole"), read_source(source), hidden=(64, 64), **settings)
    arguments = (jnp.full(agents, 1e-3), start_fleet(agent, jnp.arange(agents)))
    return train_fleet.lower(agent, *arguments, steps).compile(), arguments


def with_plain_layers(source: str, agents: int, steps: int) -> tuple[Any, Any]:
    """Ours with layers that are not normalised."""
    from chunked_td.deep import networks

    normalised = networks._normalised
    jax.clear_caches()  # the same agent, traced before, has other layers
    try:
        networks._normalised = lambda x: x
        return ours(source, agents, steps)
    finally:
        networks._normalised = normalised
        jax.clear_caches()


def rejax_ppo(agents: int, steps: int) -> tuple[Any, Any]:
    """The same of rejax, without its evaluations."""
    from rejax import PPO

    algorithm = PPO.create(
        env="CartPole-v1",
        num_envs=ENVIRONMENTS,
        num_steps=STEPS,
        num_epochs=EPOCHS,
        num_minibatches=MINIBATCHES,
        agent_kwargs={"hidden_layer_sizes": (64, 64)},
        learning_rate=1e-3,
        gae_lambda=0.95,
        max_grad_norm=0.5,
        total_timesteps=steps,
        eval_freq=steps,
        skip_initial_evaluation=True,
    ).replace(eval_callback=lambda *_: jnp.zeros(()))
    keys = jax.random.split(jax.random.key(0), agents)
    return jax.jit(jax.vmap(algorithm.train)).lower(keys).compile(), (keys,)


def main() -> None:
    """Print a line per program."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--steps", type=int, default=20 * ENVIRONMENTS * STEPS, help="transitions of each agent")
    parser.add_argument("--sources", nargs="+", default=["0.95", "value", "expected"])
    parser.add_argument("--processor-time", action="store_true", help="of all threads, instead of the clock")
    options = parser.parse_args()
    clock = time.process_time if options.processor_time else time.perf_counter
    size = (options.agents, options.steps)
    programs = {f"ours, λ {source}": ours(source, *size) for source in options.sources}
    programs[f"ours, λ {options.sources[0]}, plain layers"] = with_plain_layers(options.sources[0], *size)
    try:
        programs["rejax, λ 0.95"] = rejax_ppo(*size)
    except Exception as error:  # not installed, or for another version of JAX
        print(f"rejax: left out ({error})")
    best = dict.fromkeys(programs, float("inf"))
    for turn in range(4):
        for name, (program, arguments) in programs.items():
            began = clock()
            jax.block_until_ready(program(*arguments))
            if turn:  # the first warms up
                best[name] = min(best[name], clock() - began)
    plain = next(iter(best.values()))
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}; {size[0]} agents, {size[1]:,} transitions of each")
    for name, seconds in best.items():
        speed = size[0] * size[1] / seconds
        print(f"    {name:28} {seconds:8.3f} s   {speed / 1e6:7.3f} million steps per second   ×{seconds / plain:5.2f}")


if __name__ == "__main__":
    main()
