"""The public names of this room; `__init__.py` reads this list."""

from chunked_td.compression.compressor import Compressed as Compressed
from chunked_td.compression.compressor import HistoryCompressor as HistoryCompressor
from chunked_td.compression.compressor import LevelReading as LevelReading
