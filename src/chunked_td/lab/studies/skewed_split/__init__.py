"""Skewed split, ours: the smallest problem in which the paper's λ converges to the wrong value."""
