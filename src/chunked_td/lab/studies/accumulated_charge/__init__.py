"""Accumulated-Charge (§5.2, App. A.2): control under a reward delayed by 200 noisy steps."""
