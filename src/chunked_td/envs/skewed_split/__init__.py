"""The skewed split: compiled dynamics, Gymnasium."""
