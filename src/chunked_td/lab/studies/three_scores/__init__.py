"""Credit with exploration held equal, ours: values, decisions and control as three scores (docs/experiments)."""
