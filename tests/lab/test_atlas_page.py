"""The page of the atlas: its numbers, its words, what is missing, and what must be escaped."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from chunked_td.cli import main
from chunked_td.lab.errors import DirectoryError
from chunked_td.lab.studies.atlas.claims import CLAIMS, model_losses
from chunked_td.lab.studies.atlas.figures import ink, shade
from chunked_td.lab.studies.atlas.methods import atlas_arm, builtin_methods, runs_on
from chunked_td.lab.studies.atlas.protocol import PROFILES, problems
from chunked_td.lab.studies.atlas.ranking import AtlasBootstrap, estimate_text, ranked, score_text, unclear
from chunked_td.lab.studies.atlas.report import AtlasView, build_page
from chunked_td.lab.studies.atlas.results import (
    FLOOR,
    AtlasResults,
    WrittenVerdict,
    control_pairs,
    make_atlas,
    read_scores,
    verdict,
)
from chunked_td.lab.studies.atlas.text import (
    candidate,
    control_findings,
    controls_of,
    problems_text,
    verdict_text,
    yours,
)
from chunked_td.lab.study import FAILS, HOLDS, IN_PART, NOT_RUN, NOT_SHOWN
from helpers import browser

RESULTS = Path(__file__).parents[2] / "results" / "atlas"
FAMILIES = ("delay", "noisy-states", "fan-in", "skew", "policy", "grid")
METHODS = {method.id: method for method in builtin_methods()}


def fake(levels=None, *, profile="full", families=FAMILIES, seeds=4, noise=0.02, methods=None):
    """A table of runs. Fixed λs score λ, others 0.9, each less at its second step size, but where `levels` says else.

    Args:
      levels: {method, (method, family) or (method, family, setting, control): score}.
    """
    rng, rows, levels = np.random.default_rng(1), [], levels or {}
    size = PROFILES[profile]
    for key in problems(replace(size, families=families)):
        for method in METHODS.values() if methods is None else methods:
            if not runs_on(method, key.family, False) or not (method.quick or profile == "full"):
                continue
            level = method.lambda_source if method.group == "fixed λ" else 0.9
            for name in (method.id, (method.id, key.family), (method.id, key.family, key.setting, key.control)):
                level = levels.get(name, level)
            for exponent in method.exponents or (0, -1, -2):
                for seed in range(seeds):
                    score = level - 0.1 * abs(exponent + 1) * (method.exponents is None) + noise * rng.normal()
                    rows.append((key.family, str(key.setting), key.control, method.id, exponent, seed, score))
    columns = {"family": pl.String, "setting": pl.String, "control": pl.Boolean, "method": pl.String}
    columns |= {"exponent": pl.Int8, "seed": pl.Int16, "score": pl.Float32}
    return pl.DataFrame(rows, schema=columns, orient="row")


def write(folder: Path, frame: pl.DataFrame) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(folder / "scores.parquet")
    return folder


def finding(levels, name, **options):
    atlas = make_atlas(fake(levels, **options))
    (claim,) = (claim for claim in CLAIMS if claim.id == name)
    return claim.judge(AtlasResults(pl.DataFrame(), atlas, AtlasBootstrap(atlas, 200)), {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    levels = {"junction": 1.05, "backward": 1.2, ("expected", "skew"): 1.3, ("dyna", "grid"): np.nan}
    levels |= {("expected", "skew", setting, True): 0.5 for setting in (0.5, 0.2, 0.05)}
    return write(tmp_path_factory.mktemp("atlas"), fake(levels))


@pytest.fixture(scope="module")
def page(folder):
    return build_page(folder)


@pytest.fixture(scope="module")
def text(page):
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def atlas(folder):
    return make_atlas(pl.read_parquet(folder / "scores.parquet"))


def section(text, name):
    return text.split(f'<section id="{name}"')[1].split("</section>")[0]


def plain(text):
    """Without tags; lines as one."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)))


def test_numbers_on_the_page_are_those_of_the_results(text, atlas):
    main_problems = atlas.main()
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', section(text, "ranking").split("<details>")[0], re.DOTALL)
    assert len(rows) == len(atlas.ranking(main_problems))
    for row, method in zip(rows, atlas.ranking(main_problems), strict=True):
        cells = plain(row)
        assert METHODS[method].label in cells
        assert f" {score_text(atlas.mean(method, main_problems))} [" in cells
        assert f" {score_text(atlas.worst(method, main_problems))} " in cells
    heat = section(text, "map")
    for (key, method), cell in atlas.cells.items():
        if not key.control:
            low, high = score_text(cell.low), score_text(cell.high)
            hint = f"{METHODS[method].label}, {key.name}: {score_text(cell.relative)} [{low}, {high}]"
            assert html.escape(hint).replace("&#x27;", "&#39;") in heat
    assert f"{atlas.runs:,} runs" in section(text, "method")


def test_a_method_that_diverges_is_shown_and_counts_as_the_floor(text, atlas):
    grid = [key for key in atlas.main() if key.family == "grid"]
    assert atlas.mean("dyna", grid) == FLOOR
    assert section(text, "map").count(">×</td>") == 3
    assert "nan" not in plain(text).lower()
    assert "inf " not in plain(text)


def test_the_answer_is_told_from_the_data(text, atlas):
    answer = plain(section(text, "answer"))
    assert "Backward chunking has the highest mean relative score" in answer
    assert "The best single fixed λ is 1:" in answer
    assert "families used for design" in answer
    assert "families held out from it" in answer
    assert "wins (its interval lies above the best fixed λ) on 18 of 18 problems" in answer
    judged = verdict(atlas, "backward", atlas.held_out(True))
    assert verdict_text(judged) in answer
    assert "Controls: of 6 wins on problems that have one, 6 survive it." in answer
    other = make_atlas(fake({"forward": 2.0}))
    assert candidate(other, METHODS) == "forward"


@pytest.mark.parametrize(
    ("mean", "worst", "fixed", "met"),
    [
        (0.95, 0.75, 0.74, ("met", "met", "met")),
        (0.94, 0.75, 0.74, ("not met", "met", "met")),
        (0.95, 0.74, 0.74, ("met", "not met", "met")),
        (0.95, 0.75, 0.75, ("met", "met", "not met")),
    ],
)
def test_the_criterion_has_three_parts_and_each_can_fail(mean, worst, fixed, met):
    judged = WrittenVerdict("value", mean, worst, fixed)
    assert judged.reached == (set(met) == {"met"})
    assert verdict_text(judged) == (
        f"mean {mean:.2f} (≥ 0.95): {met[0]}; worst problem {worst:.2f} (≥ 0.75): {met[1]}; "
        f"best single fixed λ {fixed:.2f} (< 0.75): {met[2]}."
    )


def test_how_the_best_mean_stands_if_it_is_formed_otherwise():
    """A method that owes its mean to one family is behind once a score above 1 counts as 1, or without the family."""
    levels = {"value": 0.8, ("value", "skew"): 9.0, "expected": 0.95}
    view = AtlasView(fake(levels, families=("delay", "skew", "grid"), noise=0.0), list(METHODS.values()))
    best, otherwise, held_out = view.answer[:3]
    assert "Value kernel has the highest mean relative score" in best
    assert "Where a score above 1 counts as 1, it has 0.87, behind" in otherwise
    assert "Without Skewed noise, which lifts it most, it has 0.80, behind" in otherwise
    assert "Over the 9 problems that tell fixed λs apart" in otherwise
    assert "3 of which tell fixed λs apart, Value kernel has 0.80" in held_out
    assert "minus the best single fixed λ there (1): −0.20 [−0.20, −0.20], behind" in held_out
    assert "λ sources with a higher mean there: Expected chunking (0.95)" in held_out
    headline = view.documents()["headline"]
    assert "Value kernel has the highest mean" in headline
    assert "it has 0.87, behind" in headline
    assert "On families held out it has 0.80 [0.80, 0.80]" in headline


def test_claims_name_what_speaks_against_them():
    levels = {"forward": 1.0, "forward-literal": 1.0, "forward-sarsa": 0.3, "naive-td0": -4.0}
    levels |= {("forward-literal", "fan-in", 8, False): 0.5}
    families = {"families": ("fan-in", "policy"), "noise": 0.0}
    assert "Chunked SARSA" in finding(levels, "same-next-state", **families).evidence
    assert finding(levels, "same-next-state", **families).evidence.endswith("has 0.30, 0.30 and 0.30.")
    for name in ("sutton-singh-fan-in", "tdc-and-backward"):
        assert finding(levels, name, **families).evidence.endswith("TD(0) with 1/n has −4.00, −4.00 and −4.00.")
    literal = finding(levels, "literal-reading", **families).evidence
    assert "On the 1 where their runs differ: 0.50 [0.50, 0.50], from 0.50 (Many ways in, starts 8)" in literal


def test_wins_that_do_not_survive_the_control_are_flagged(text, atlas):
    controls = plain(section(text, "controls"))
    assert "Expected chunking wins, but not on the control: Skewed noise, skew 0.5" in controls
    assert section(text, "controls").count('<td class="lost">') == 3
    assert "Backward chunking wins, but" not in controls
    lost = {pair.method for pair in control_pairs(atlas) if pair.lost}
    assert lost == {"expected"}
    assert all(pair.clearly_lost for pair in control_pairs(atlas) if pair.lost)
    assert controls_of("expected", control_pairs(atlas)).endswith("of 3 wins on problems that have one, 0 survive it.")
    assert controls_of("fixed-0", control_pairs(atlas)).endswith("there is no win to check.")
    assert controls_of("fixed-0", []) == "Controls: none among these runs."
    none = make_atlas(fake(families=("delay",)))
    assert control_findings(control_pairs(none), METHODS) == ["These runs have no controls; the full profile has."]


def test_methods_that_run_on_some_families_are_listed_apart(text):
    ranking = section(text, "ranking")
    before, apart = ranking.split("<details>")
    assert "Dyna, stale" not in plain(before)
    assert "Dyna, stale" in plain(apart)


def test_the_page_works_alone_and_lies_beside_its_figures_and_tables(page, text):
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert all(source.startswith(("data:", "#")) for source in sources)
    assert "<script" not in text
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(set(ids)) == len(ids)
    assert {source[1:] for source in sources if source.startswith("#")} <= set(ids)
    order = re.findall(r'<section id="([^"]*)"', text)
    wanted = ["answer", "ranking", "map", "families", "controls", "model-errors", "claims", "method"]
    assert order == wanted
    assert {file.name for file in (page.parent / "figures").iterdir()} == {
        "ranking.png",
        "heat-map.png",
        "families.png",
    }
    tables = {file.stem: file.read_text(encoding="utf-8") for file in (page.parent / "tables").iterdir()}
    names = {"answer", "ranking", "model-errors", "claims", "criterion", "sources", "by-family"}
    assert set(tables) == names | {"controls", "control-kinds", "headline", "cross-fitted"}
    assert "| Expected chunking | 3 | 0 | Skewed noise, skew 0.5: " in tables["controls"]
    assert "| Backward chunking | chunked |" in tables["ranking"]


def test_the_quick_profile_has_a_page_without_what_it_lacks(tmp_path):
    text = plain(build_page(write(tmp_path, fake(profile="quick"))).read_text(encoding="utf-8"))
    assert "These runs have no controls" in text
    assert "These runs do not have all three errors." in text
    assert text.count("not run") >= 5


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_one_family_and_two_methods_have_a_page(tmp_path, noise):
    few = [METHODS["fixed-0"], METHODS["fixed-1"], METHODS["solved"]]
    frame = fake(families=("grid",), methods=few, seeds=1, noise=noise)
    text = plain(build_page(write(tmp_path, frame)).read_text(encoding="utf-8"))
    assert "3 methods on 3 problems" in text
    assert "Is there one λ source" not in text  # there is none among them
    assert "of 6 pairs of a method and a problem" in text  # certainty equivalence has one step size: not counted


def test_hostile_labels_are_escaped(tmp_path):
    label = "<script>alert('x')</script> $\\frac{1}$ | {{ 7 * 7 }}"
    mine = atlas_arm("mine", label, "<b>group</b>", 0.5)
    frame = fake({"mine": 2.0}, families=("delay",), methods=[METHODS["fixed-0"], METHODS["fixed-1"], mine])
    text = build_page(write(tmp_path, frame), [*METHODS.values(), mine]).read_text(encoding="utf-8")
    assert "<script" not in text
    assert "<b>group" not in text
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; $\\frac{1}$ | {{ 7 * 7 }} has the highest" in text
    named = build_page(tmp_path, out=tmp_path / "again").read_text(encoding="utf-8")
    assert "mine has the highest mean" in named  # a method that nobody describes has its id for a name


def test_page_only_makes_the_page_from_the_scores(tmp_path, capsys):
    folder = write(tmp_path / "map", fake(families=("delay",), profile="quick"))
    with pytest.raises(SystemExit) as end:
        main(["atlas", "--page-only", "--out", str(folder)])
    assert end.value.code == 0
    assert "atlas.html" in capsys.readouterr().out
    assert (folder / "atlas.html").is_file()
    with pytest.raises(DirectoryError, match=r"has no scores\.parquet"):
        build_page(tmp_path)
    with pytest.raises(DirectoryError, match="has no rows"):
        build_page(write(tmp_path / "empty", fake(families=())))


def test_intervals_are_bootstraps_over_families_settings_and_seeds():
    """Known variance: families, their settings and seeds, each with a spread; 95 % are ±1.96 standard errors."""
    rng = np.random.default_rng(0)
    few = [METHODS["fixed-0"], METHODS["fixed-1"], METHODS["forward"]]
    keys = [key for key in problems(PROFILES["full"]) if not key.control]
    shift = {key.family: 0.02 * rng.normal() for key in keys}
    levels = {("forward", k.family, k.setting, False): 0.5 + shift[k.family] + 0.02 * rng.normal() for k in keys}
    frame = fake(levels, families=None, methods=few, seeds=20, noise=0.0).filter(~pl.col("control"))
    shaken = frame.with_columns(score=pl.col("score") + pl.Series(0.3 * rng.normal(size=frame.height)).cast(pl.Float32))
    shaken = pl.concat([frame.filter(pl.col("method") != "forward"), shaken.filter(pl.col("method") == "forward")])
    atlas = make_atlas(shaken.filter(pl.col("exponent") == -1))
    found = AtlasBootstrap(atlas).mean("forward", atlas.main())
    values = np.array([atlas.cells[key, "forward"].by_seed for key in atlas.main()]).reshape(len(shift), 3, -1)
    means = values.mean(axis=2)
    parts = [means.mean(axis=1).var() / len(shift), means.var(axis=1).mean() / means.size]
    parts.append(values.var(axis=2).mean() / values.size)
    assert found.value == pytest.approx(atlas.mean("forward", atlas.main()))
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * np.sqrt(sum(parts)), rel=0.1)
    assert all(np.sqrt(sum(parts) - part) < 0.9 * np.sqrt(sum(parts)) for part in parts)  # each is needed


def test_settings_of_a_family_that_go_together_make_intervals_wide():
    """Three settings that are one problem three times tell no more than one of them."""
    few = [METHODS["fixed-0"], METHODS["fixed-1"], METHODS["forward"]]
    rng = np.random.default_rng(1)
    levels = {("forward", name): 0.5 + 0.2 * rng.normal() for name in FAMILIES}
    atlas = make_atlas(fake(levels, methods=few, noise=0.0))
    keys, bootstrap = atlas.main(), AtlasBootstrap(atlas)
    all_three, first = bootstrap.mean("forward", keys), bootstrap.mean("forward", keys[::3])
    assert all_three.high - all_three.low == pytest.approx(first.high - first.low, rel=0.1)
    uneven = [*keys[:4], *keys[6:]]  # one family has a single setting
    drawn = bootstrap.samples("forward", uneven)
    assert np.isnan(drawn).any()
    assert np.nanmean(drawn) == pytest.approx(np.mean([np.nanmean(column) for column in drawn.T]), abs=0.02)
    one = bootstrap.mean("forward", keys[:1])
    assert one.low == pytest.approx(one.high)  # one problem, no noise between its seeds


def test_problems_that_tell_no_fixed_lambda_from_another_are_marked(tmp_path):
    few = [METHODS["fixed-0"], METHODS["fixed-1"], METHODS["forward"]]
    levels = {("fixed-0", "grid"): 1.0, ("fixed-0", "grid", 0.0, False): 0.0}
    frame = fake(levels, families=("delay", "grid"), methods=few, noise=0.1)
    atlas = make_atlas(frame)
    assert [key.setting for key in unclear(atlas, atlas.main())] == [0.2, 0.5]
    text = build_page(write(tmp_path, frame)).read_text(encoding="utf-8")
    assert "mostly noise: Grid (0.2 and 0.5)." in plain(section(text, "answer"))
    assert section(text, "map").count(" ~</th>") == 2


def test_ranks_and_regret():
    few = [METHODS["fixed-0"], METHODS["fixed-1"], METHODS["forward"], METHODS["expected"]]
    levels = {"forward": 0.8, "expected": 0.8, ("forward", "grid"): 1.5}
    atlas = make_atlas(fake(levels, families=("delay", "grid"), methods=few, noise=0.0))
    rows = {row.method: row for row in ranked(atlas, atlas.main(), AtlasBootstrap(atlas, 100))}
    assert rows["fixed-1"].rank.value == pytest.approx(1.5)  # first on delay, second on the grid
    assert rows["forward"].rank.value == pytest.approx((2.5 + 1.0) / 2)  # a tie on delay
    assert rows["forward"].regret == pytest.approx(0.1)
    assert rows["fixed-1"].regret == pytest.approx(0.25)
    assert {key.family for key in rows["forward"].wins} == {"grid"}
    assert {key.family for key in rows["fixed-0"].losses} == {"delay", "grid"}
    assert problems_text(rows["forward"].wins) == "Grid"
    assert problems_text(rows["forward"].wins[:2]) == "Grid (0.0 and 0.2)"


@pytest.mark.parametrize(
    ("losses", "status"),
    [
        ({"dyna": 0.5, "solved": 0.2}, HOLDS),
        ({"dyna": 0.9, "solved": 0.95}, FAILS),
        ({"dyna": 0.5, "solved": 0.2, "dyna-stale": 0.9}, IN_PART),  # not for each error
        ({"dyna": 0.5, "solved": 0.2, "near": 0.75}, IN_PART),  # for each error, but not apart
    ],
)
def test_the_claim_about_wrong_models(losses, status):
    errors = ("corrupted", "permuted", "stale")
    levels = {f"{name}-{error}": losses[name] for name in ("dyna", "solved") for error in errors} | losses
    if "near" in losses:
        levels |= {(f"dyna-{error}", "delay"): losses["near"] for error in errors}
    levels |= {f"{name}-{error}": 0.7 for error in errors for name in ("expected", "forward")}
    levels |= {"dyna": 0.9, "solved": 0.9}
    found = finding(levels, "robust-to-model-errors", families=("delay", "noisy-states"), seeds=12)
    assert found.status == status
    assert f"With the paper's λ in the place of expected chunking: {status}." in found.evidence


def test_the_loss_of_a_wrong_model_is_right_minus_wrong():
    atlas = make_atlas(fake({"dyna": 0.8, "dyna-stale": 0.5}, families=("delay", "walk"), noise=0.0))
    found = {(loss.error, loss.method): loss for loss in model_losses(atlas, AtlasBootstrap(atlas, 50))}
    stale = found["stale", "dyna"]
    assert stale.problems == 3  # those of delay: on the walk nothing runs with a wrong model
    assert stale.loss.value == pytest.approx(0.3, abs=1e-6)
    assert stale.right.value - stale.wrong.value == pytest.approx(stale.loss.value)


@pytest.mark.parametrize(
    ("name", "levels", "status"),
    [
        ("backward-fan-in", {("backward", "fan-in"): 1.2}, HOLDS),
        ("backward-fan-in", {("backward", "fan-in"): 0.3}, FAILS),
        ("backward-fan-in", {("backward", "fan-in"): 0.3, ("backward", "fan-in", 8, False): 1.2}, IN_PART),
        ("sutton-singh-fan-in", {"tdc": 1.2, "td-n-over-n": 1.2}, HOLDS),
        ("sutton-singh-fan-in", {"tdc": 1.2, "td-n-over-n": 0.2}, IN_PART),
        ("sutton-singh-fan-in", {"tdc": 0.2, "td-n-over-n": 0.2}, FAILS),
        ("tdc-and-backward", {"tdc": 1.2}, HOLDS),
        ("tdc-and-backward", {"tdc": 0.2, ("tdc", "fan-in", 8, False): 1.2}, IN_PART),
        ("tdc-and-backward", {"tdc": 0.2}, FAILS),
        ("same-next-state", {("forward", "policy"): 1.0}, HOLDS),
        ("same-next-state", {("forward", "policy"): 0.5}, FAILS),
        ("same-next-state", {("forward", "policy"): 1.0, ("forward", "policy", 8, False): 0.5}, IN_PART),
        ("sampled-chunks", {"forward-sarsa": 0.9, "sampled-sarsa": 0.9}, HOLDS),
        ("sampled-chunks", {"forward-sarsa": 0.9, "sampled-sarsa": 0.5}, FAILS),
        ("sampled-chunks", {("sampled-sarsa", "fan-in"): 0.2, ("sampled-sarsa", "policy"): 1.6}, NOT_SHOWN),
        ("literal-reading", {"forward-literal": 0.5}, HOLDS),
        ("literal-reading", {"forward-literal": 1.2}, FAILS),
        ("literal-reading", {}, NOT_SHOWN),
    ],
)
def test_further_claims(name, levels, status):
    assert finding(levels, name, families=("fan-in", "policy")).status == status


def test_claims_without_their_runs_are_not_run():
    atlas = make_atlas(fake(families=("walk",), profile="quick"))
    results = AtlasResults(pl.DataFrame(), atlas, AtlasBootstrap(atlas, 50))
    assert {claim.judge(results, {}).status for claim in CLAIMS} == {NOT_RUN}
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)


def test_colours_can_be_told_and_read():
    assert shade(-5.0) == shade(0.0)
    assert shade(1.0) == "#FFFFFF"
    assert shade(1.5) == shade(9.0)
    assert ink(shade(1.0)) != ink(shade(1.5))


def test_numbers_as_text():
    assert score_text(-0.001) == "0.00"
    assert score_text(-np.inf) == "diverged"
    assert estimate_text((0.5, -0.25, 1.0)) == "0.50 [−0.25, 1.00]"


def test_a_method_of_ones_own_is_in_every_panel():
    mine = atlas_arm("mine", "Mine", "yours", 0.5)
    view = AtlasView(fake(families=("delay",), methods=[*METHODS.values(), mine]), [*METHODS.values(), mine])
    assert view.main_methods[0] == "mine"
    assert "fixed-1" in view.main_methods
    assert next(iter(view.groups)) == "yours"


def test_the_stored_tables_are_those_of_the_stored_scores():
    view = AtlasView(read_scores(RESULTS / "scores.parquet"), builtin_methods())
    stored = {file.stem: file.read_text(encoding="utf-8") for file in (RESULTS / "tables").iterdir()}
    assert {name: text.rstrip("\n") + "\n" for name, text in view.documents().items()} == stored


@browser.needed
def test_the_page_in_a_browser(page, tmp_path):
    with browser.Browser(tmp_path / "profile") as window:
        for width in (1280, 390):
            window.size(width)
            window.open(page)
            assert window.ask("document.documentElement.scrollWidth") <= width
            window.ask("document.querySelector('.heat').scrollLeft = 300")
            head = "document.querySelector('.heat tbody tr:nth-child(2) th').getBoundingClientRect()"
            box = "document.querySelector('.heat').getBoundingClientRect()"
            assert window.ask(f"Math.abs({head}.left - {box}.left) < 2")  # the names stay where they are
            assert window.ask("Array.from(document.images).every(image => image.naturalWidth > 100)")
        assert window.errors == []
        assert all(address.startswith(("file:", "data:")) for address in window.requests)


def test_a_method_of_yours_is_told_about_first(tmp_path):
    """Scores with a known answer: between two others, one win, one loss, and the win is gone on the control."""
    mine = atlas_arm("mine", "Mine", "yours", None)
    levels = {"mine": 0.93, ("mine", "skew"): 1.4, ("mine", "grid"): 0.2, "backward": 0.94, ("backward", "grid"): 0.25}
    levels |= {("backward", "skew"): 1.35}
    levels |= {("mine", "skew", setting, True): 0.5 for setting in (0.5, 0.2, 0.05)}
    methods = [*METHODS.values(), mine]
    view = AtlasView(fake(levels, methods=methods), methods)
    told = yours(view, "mine")
    place = [row.method for row in view.rows].index("mine") + 1
    assert told.startswith(f"Mine is number {place} of {len(view.rows)} methods on ")
    where = {name: problems_text([key for key in view.problems if key.family == name]) for name in ("skew", "grid")}
    assert f"on 3 ({where['skew']}) and loses (below 0.75) on 3 ({where['grid']})" in told
    assert f"nearest relative is {METHODS['backward'].label}" in told
    assert "controls: of 3 wins on problems that have one, 0 survive it." in told
    page = build_page(write(tmp_path, fake(levels, methods=methods)), methods).read_text(encoding="utf-8")
    assert page.index('id="yours-mine"') < page.index('id="answer"')
    assert (tmp_path / "figures" / "yours-mine.png").is_file()
    alone = AtlasView(fake(levels, methods=methods, families=("grid",), profile="quick"), methods)
    assert "[" not in yours(alone, "mine").partition(". It wins")[0]  # one family has no interval over families
