"""Run directories: batches on disk, manifest, log, provenance, import."""
