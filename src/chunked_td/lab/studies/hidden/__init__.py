"""Hidden state: memory, and λ from the history."""
