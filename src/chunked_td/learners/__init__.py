"""Learners: the update (`update`), its named algorithms (`named`), Sutton & Singh 1994 (`sutton_singh`)."""
