"""Does λ depend on the state alone if its model learns from a transition before it says λ? The evidence for networks.

    .venv/bin/python docs/experiments/learn_first.py       # seconds on a CPU; writes results/learn_first.md

One state, left again and again. The next value is 9 in one case of ten and −1 otherwise, so its mean is 0 and so is the
mean TD error of the right value. A λ that depends on the state alone is independent of the error that comes, and the
weighted mean E[λδ]/E[λ] is that of the plain errors. A source that learns first has seen the next value when it says λ.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chunked_td.deep.lambdas import DeepLambda, DeepPercepts, DeepValueKernel, SourceSizes, Transitions

RESULT = Path(__file__).parents[2] / "results" / "learn_first.md"
STREAMS, STEPS, WARM_UP = 64, 20_000, 2_000
SOURCES: dict[str, DeepLambda] = {
    "value-kernel, c = 0.3": DeepValueKernel(),
    "value-kernel, c = 1": DeepValueKernel(c=1.0),
    "value-kernel, c = 0.3, a tenth of its rate": DeepValueKernel(rate=0.005),
    "expected": DeepPercepts("expected"),
}


def transition(rare: jax.Array) -> Transitions:
    """One transition whose next value is 9 where `rare`, else −1."""
    value = jnp.where(rare, 9.0, -1.0)[None, None]
    one, code = jnp.ones((1, 1, 1)), jnp.where(rare, 1, 0)[None, None, None]
    scalar, no = jnp.zeros((1, 1)), jnp.zeros((1, 1), bool)
    return Transitions(
        one, one, one, one, 0 * code, code, jnp.zeros((1, 1), int), one, scalar, value, scalar, value, no, no,
        jnp.ones((1, 1)), jnp.ones(()),
    )  # fmt: skip


def stream(source: DeepLambda, seed: jax.Array) -> jax.Array:
    """Means over one stream: E[λδ]/E[λ] where the source learns first, where it answers first, and E[δ]."""
    key = jax.random.key(seed)
    state = source.init(key, SourceSizes(inputs=1, features=1, nvec=(2,), n_actions=1))

    def one(state: Any, rare: jax.Array) -> tuple[Any, jax.Array]:
        seen = transition(rare)
        before = source.lambdas(state, seen)[0, 0]
        state = source.learn(state, seen)
        return state, jnp.stack([source.lambdas(state, seen)[0, 0], before, seen.td_error[0, 0]])

    rare = jax.random.bernoulli(jax.random.fold_in(key, 1), 0.1, (STEPS,))
    first, before, error = jax.lax.scan(one, state, rare)[1][WARM_UP:].T
    return jnp.stack([jnp.sum(x * error) / jnp.sum(x) for x in (first, before, jnp.ones_like(error))])


def main() -> None:
    """Write the three means of every source, with standard errors over streams."""
    lines = ["| source | learns first, as run | answers first | mean error |", "|---|---|---|---|"]
    for name, source in SOURCES.items():
        means = np.asarray(jax.jit(jax.vmap(functools.partial(stream, source)))(jnp.arange(STREAMS)))
        cells = [f"{m:+.3f} ± {s:.3f}" for m, s in zip(means.mean(0), means.std(0) / STREAMS**0.5, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
