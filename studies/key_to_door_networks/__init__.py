"""Alg. 4 with networks for the values: Key-to-Door with a head per reward component."""
