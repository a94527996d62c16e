"""From stored rows to numbers: statistics, step-size selection, tables, claims."""
