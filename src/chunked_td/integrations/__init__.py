"""A λ per step in training loops of other libraries. Each module needs the library it is named after, as an extra."""
