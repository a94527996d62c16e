"""The paper's problems and our controls: compiled dynamics, exact values, Gymnasium environments."""
