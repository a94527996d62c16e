"""The study of backward models: that a tiny one is collected, judged and tabled."""

from __future__ import annotations

from chunked_td.lab.studies.deep.criteria import FIXED
from chunked_td.lab.studies.fan_in.claims import CLAIMS, COLLECT, LOAD, PAGE
from chunked_td.lab.studies.fan_in.protocol import AGENTS, fan_in_protocols
from helpers.fake_runs import fake_agents


def test_a_tiny_study_is_collected_and_tabled(tmp_path, monkeypatch):
    COLLECT(fake_agents(fan_in_protocols("smoke"), tmp_path, monkeypatch)).write_parquet(tmp_path / "runs.parquet")
    results = LOAD(tmp_path)
    assert len(results.frame) == len(AGENTS) * (len(FIXED) + 3) * 3
    assert "| backward |" in PAGE(tmp_path, results).read_text(encoding="utf-8")
    assert (tmp_path / "figures" / "fan-in-ppo.svg").stat().st_size > 1_000
    assert {claim.judge(results, {}).status for claim in CLAIMS} == {"not run"}
    assert set(results.pairs["ppo"]) == {"realised", "expected"}
