"""The T-maze: compiled dynamics, Gymnasium, JAX."""
