"""Key-to-Door: compiled dynamics, Gymnasium."""
