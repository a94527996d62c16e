"""Parts written as a user would write them, with the package's public means alone."""
