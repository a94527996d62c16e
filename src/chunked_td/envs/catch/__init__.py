"""Catch: JAX."""
