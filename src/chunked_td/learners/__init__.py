"""Learners: the update (`update`), its named algorithms (`named`), Sutton & Singh 1994 (`sutton_singh`)."""

from chunked_td._loading import lazy_names

__getattr__, __dir__ = lazy_names(__name__)
