"""Umbrella: JAX."""
