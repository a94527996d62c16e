"""The two signs of Accumulated-Charge, ours: what makes them differ, and what removes the difference."""
