"""CartPole: JAX."""
