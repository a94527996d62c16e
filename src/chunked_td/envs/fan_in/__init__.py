"""Fan-in: JAX."""
