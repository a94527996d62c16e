"""λ per token."""
