"""What several test modules use: independent definitions, toy problems, stand-ins for runs."""
