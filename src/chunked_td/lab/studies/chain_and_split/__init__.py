"""Chain-and-Split (§5.1, App. A.1): policy evaluation with certain and noisy branches."""
