"""The history compressor against single networks."""
