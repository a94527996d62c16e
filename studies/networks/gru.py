"""The gated recurrent unit that the networks of two studies share."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def gated_step(state: jax.Array, drive: jax.Array, pushed: jax.Array) -> jax.Array:
    """The next state of a gated recurrent unit (GRU; Cho et al. 2014).

        r = σ(d_r + u_r),   z = σ(d_z + u_z),   n = tanh(d_n + r ⊙ u_n),   h' = z ⊙ h + (1 − z) ⊙ n

    Args:
      state: h [..., hidden]. drive: d = W x + b [..., 3 hidden], in the order r, z, n. pushed: u = U h, likewise.
    """
    (x_r, x_z, x_n), (u_r, u_z, u_n) = jnp.split(drive, 3, -1), jnp.split(pushed, 3, -1)
    r, z = jax.nn.sigmoid(x_r + u_r), jax.nn.sigmoid(x_z + u_z)
    return z * state + (1 - z) * jnp.tanh(x_n + r * u_n)
