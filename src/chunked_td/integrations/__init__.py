"""λ per step in training loops of other libraries. Each module requires the library of its name, as an extra."""
