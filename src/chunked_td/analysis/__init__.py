"""What can be computed rather than estimated: exact values of the environments (`exact`)."""
