"""What can be computed rather than estimated: exact values (`exact`), and where λ methods settle (`fixed_points`)."""
