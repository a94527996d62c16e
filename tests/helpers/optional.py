"""Packages that some tests need and that need not be installed."""

from __future__ import annotations

import importlib.util

import pytest


def needs(package: str) -> pytest.MarkDecorator:
    """Mark of tests that are skipped where a package is not installed; `conftest.py` tells of them once a package."""
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")
