"""Networks, a λ per step: fixed λ and every source on every task."""
