"""Documentation that runs: the Python blocks of each page, in order, in one namespace.

What a page says a run prints is compared with what is printed: the comment behind ``print(...)  # → …``, and the lines
under ``$ stepmap optimize`` and ``$ stepmap generate``. Numbers may differ by a unit of their last digit; those of
rounding, below 1e-9, by a factor of ten.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.pages import NUMBER, ROOT, blocks, near

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
WITH_CODE = {
    *("README.md", "systems.md", "notation.md", "cli.md", "jobs.md", "optimal.md", "estimation.md"),
    *("strings-contacts.md", "direct.md", "identify.md"),
    *("fixed-point.md", "schedule.md"),
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_runs(page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # pages name files of examples/
    said: dict[int, list[str]] = {}

    def say(*values: object) -> None:
        said.setdefault(sys._getframe(1).f_lineno, []).append(" ".join(map(str, values)))

    namespace: dict[str, object] = {"__name__": page.name, "print": say}
    for line, code in blocks(page):
        # Blank lines in front, so that a traceback shows the page's own line numbers.
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
    for number, text in enumerate(page.read_text().splitlines(), start=1):
        shown = re.search(r"^\s*print\(.*\)  # → (.+)$", text)
        if shown is not None:
            assert number in said, f"{page.name}:{number}: prints nothing"
            assert_same(shown[1], said[number][-1], f"{page.name}:{number}")


def assert_same(shown: str, printed: str, where: str, *, words: bool = True) -> None:
    """Whether a page shows what was printed; without ``words`` only its numbers."""
    ours, theirs = NUMBER.findall(shown), NUMBER.findall(printed)
    told = f"{where} shows {shown!r}, and it prints {printed!r}"
    assert len(ours) == len(theirs), told
    if words:
        assert NUMBER.sub("#", shown).split() == NUMBER.sub("#", printed).split(), told
    for a, b in zip(ours, theirs, strict=True):
        assert near(a, float(b)), told


@pytest.mark.parametrize(
    ("shown", "value", "same"),
    [
        ("3", 3.0, True),
        ("3", 5.0, False),
        ("12", 2.2, False),
        ("3.4", 0.69, False),
        ("0.69", 0.694, True),
        ("0.825", 0.8251, True),
        ("7900", 7849.0, False),
        ("9.4e-12", 1.4e-13, False),
        ("1.6e-14", 0.7e-14, True),  # rounding differs between machines
    ],
)
def test_numbers_are_told_apart(shown: str, value: float, same: bool) -> None:
    assert near(shown, value) is same


def shell(page: Path, command: str) -> dict[str, str]:
    """The lines a page shows under a command, by their first column."""
    found = re.search(rf"^```\n\$ {re.escape(command)}.*\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page.name} does not show {command}"
    rows = [re.split(r"\s{2,}", line, maxsplit=1) for line in found[1].splitlines()]
    return {row[0]: row[1] for row in rows if row[0] != "written"}


def test_the_readme_shows_what_optimize_and_generate_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepmap.jobs import optimize as optimum
    from stepmap_codegen.commands import key_figures
    from tests.pil.built import job, solution

    readme = ROOT / "README.md"
    printed = dict(optimum.key_figures(job(), job().solve(), 0.0))
    for name, text in shell(readme, "stepmap optimize examples/suspended_mass.toml").items():
        timeless = [re.sub(r", [\d.]+ s of CPU time", "", one) for one in (text, printed[name])]
        assert_same(*timeless, f"README.md, {name}", words=False)
    printed = dict(key_figures(solution()[1]))
    for name, text in shell(readme, "stepmap generate examples/suspended_mass.toml").items():
        assert_same(text, printed[name], f"README.md, {name}", words=False)


def test_pages_with_code_are_found() -> None:
    assert {page.name for page in PAGES if blocks(page)} >= WITH_CODE


@pytest.mark.parametrize(
    ("row", "name"),
    [("suspended mass, an abrupt and tight figure of eight", "figure_eight"), ("cart swing-up", "cart_swing_up")],
)
def test_the_readme_counts_iterations_as_the_benchmark_does(row: str, name: str) -> None:
    import stepmap as sm
    from tests import problems

    found = re.search(rf"^\| {row}[^|]*\| (\d+) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert found is not None
    solution = sm.optimize(getattr(problems, name)())
    assert sum(entry.length > 0 for entry in solution.history) == int(found[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text) + re.findall(r'(?:src|srcset|href)="([^"#]+)', text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        other = page.parent / target if target else page
        headings = re.findall(r"^#+ (.+)$", other.read_text(), re.MULTILINE)
        known = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in known, f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    """Paths from the top of the repository, and of modules from the top of their package."""
    places = {"stepmap": "host", "stepmap_codegen": "codegen", "stepmap_hil": "hil"}
    tops = ("host", "codegen", "hil", "firmware", "tests", "tools", "examples", "docs", *places)
    for path in re.findall(rf"`((?:{'|'.join(tops)})/[\w./-]+)`", page.read_text()):
        whole = ROOT / places.get(path.partition("/")[0], "") / path
        placeholder = any(part.partition(".")[0].isupper() for part in path.split("/")) or "test_NAME" in path
        assert placeholder or list(whole.parent.glob(f"{whole.name}*")), f"{page.name} names {path}"


def test_the_page_of_sensors_knows_how_many_channels_a_board_takes() -> None:
    dialect = (ROOT / "firmware" / "dialect" / "stepmap.xml").read_text()
    most = re.search(r'value="(\d+)" name="STEPMAP_LIMIT_CHANNELS"', dialect)
    assert most is not None
    assert f"A board takes {most[1]} channels" in (ROOT / "docs" / "sensors.md").read_text()


def test_pictures_are_small() -> None:
    for picture in (ROOT / "docs" / "images").iterdir():
        assert picture.stat().st_size < (1_500_000 if picture.suffix == ".webp" else 200_000)  # one moves


def test_the_readme_counts_bit_exact_ticks_as_the_tests_do() -> None:
    from stepmap_codegen.toolchain import TARGETS
    from tests.sil.test_million import CHUNK, CHUNKS

    text = (ROOT / "README.md").read_text()
    assert CHUNK * CHUNKS == 10**6
    assert text.count("on 10⁶ ticks") == 2
    assert [target.memory is not None for target in TARGETS.values()].count(True) == 5
    assert len(re.findall(r"10⁴\s+on each of five emulated chips|10⁴ on each of five", text)) == 2
    assert "fields[:, :10_000]" in (ROOT / "tests" / "sil" / "test_targets.py").read_text()


def test_every_builder_method_is_documented() -> None:
    from stepmap import Builder
    from stepmap.mechanics.frames import Frame

    text = (ROOT / "docs" / "systems.md").read_text()
    for name in (name for name in vars(Builder) if not name.startswith("_")):
        assert f"b.{name}(" in text, f"Builder.{name}"
    for name in ("fixed", "translate"):
        assert hasattr(Frame, name)
        assert f".{name}(" in text


def test_the_index_lists_every_page_once() -> None:
    listed = re.findall(r"^- \[[^]]+\]\(([\w-]+\.md)\)", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name != "index.md")
