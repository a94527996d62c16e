"""Shared by the studies: runs as arrays, criteria, tables, figures, pages, stored data."""
