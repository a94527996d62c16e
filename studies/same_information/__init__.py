"""Whether a rule for λ assigns credit better than fixed λs that have the same model."""
