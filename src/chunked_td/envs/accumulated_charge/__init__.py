"""Accumulated-Charge: compiled dynamics, Gymnasium, JAX."""
