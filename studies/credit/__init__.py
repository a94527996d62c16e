"""Credit with exploration held equal."""
