"""What studies share: runs as arrays, criteria, tables, figures, pages, stored data."""
