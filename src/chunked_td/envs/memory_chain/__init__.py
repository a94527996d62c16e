"""Memory chain: JAX."""
