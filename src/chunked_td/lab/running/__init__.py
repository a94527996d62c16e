"""From protocols to stored runs: planning, batches, engines, progress, remote hosts."""
