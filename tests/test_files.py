"""Atomic writes: whole files or none, and nothing left behind."""

from __future__ import annotations

import os

import pytest

from chunked_td._files import UNFINISHED, write_atomically


def test_a_file_is_written_and_replaced_and_its_folder_is_made(tmp_path):
    path = tmp_path / "a" / "b" / "file"
    for content in (b"first", b"", bytes(range(256)) * 10_000):
        write_atomically(path, content)
        assert path.read_bytes() == content
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("name", ["write", "fsync", "replace"])
def test_a_failure_keeps_the_old_content_and_leaves_nothing(tmp_path, monkeypatch, name):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_):
        assert any(name.endswith(UNFINISHED) for name in os.listdir(tmp_path))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == []
