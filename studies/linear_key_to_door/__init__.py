"""Linear key-to-door."""
