"""Chain-and-Split: compiled dynamics, Gymnasium."""
