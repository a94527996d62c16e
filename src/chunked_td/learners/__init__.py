"""Learners: the recursion (`recursion`), its named algorithms (`named`), Sutton & Singh 1994 (`sutton_singh`)."""
