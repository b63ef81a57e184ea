"""Campaign files: what varies in them, and mistakes, each told with file and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepmap.campaigns import load
from stepmap.campaigns.kinds.filter import nees_apart
from stepmap.campaigns.kinds.truth import least_change
from stepmap.campaigns.varied import Distribution, Varied
from stepmap.errors import JobError
from stepmap.estimate import nees
from tests.campaigns import written
from tests.pages import ROOT

HEAD = '[campaign]\nkind = "filter"\njob = "pendulum.toml"\n'


def test_all_points_come_with_all_draws() -> None:
    varied = Varied({"a": (1.0, 2.0), "b": ("x", "y")}, {"c": (5.0, 6.0), "d": (7.0, 8.0)}, {}, 3, 1)
    assert len(varied) == 2 * 2 * 2 * 3
    seen = [tuple(varied.trial(i).values.values()) for i in range(0, len(varied), 3)]
    assert seen[:4] == [(1.0, "x", 5.0, 7.0), (1.0, "x", 6.0, 8.0), (1.0, "y", 5.0, 7.0), (1.0, "y", 6.0, 8.0)]
    assert len(set(seen)) == 8


def test_a_draw_is_the_same_at_every_point_and_others_are_others() -> None:
    varied = Varied({"a": (1.0, 2.0)}, {}, {"m": Distribution("normal", (1.0, 0.1))}, 50, 1)
    first, second = varied.trials(range(50)), varied.trials(range(50, 100))
    assert [t.seed for t in first] == [t.seed for t in second]
    assert [t.values["m"] for t in first] == [t.values["m"] for t in second]
    assert [t.rng.random() for t in first] == [t.rng.random() for t in second]
    assert len({t.seed for t in first}) == len({t.values["m"] for t in first}) == 50


def test_distributions_are_what_they_say() -> None:
    """Means and spreads of 4000 draws, within 4 standard errors of those of the law."""
    n = 4000
    drawn = {}
    for form, of in (("normal", (2.0, 0.5)), ("uniform", (1.0, 3.0)), ("log_uniform", (0.1, 10.0))):
        varied = Varied({}, {}, {"v": Distribution(form, of)}, n, 3)
        drawn[form] = np.array([t.values["v"] for t in varied.trials(range(n))])
    assert abs(drawn["normal"].mean() - 2.0) < 4 * 0.5 / np.sqrt(n)
    assert drawn["normal"].std() == pytest.approx(0.5, rel=4 / np.sqrt(2 * n))
    assert abs(drawn["uniform"].mean() - 2.0) < 4 * (2 / np.sqrt(12)) / np.sqrt(n)
    assert 1.0 <= drawn["uniform"].min() < drawn["uniform"].max() < 3.0
    logs = np.log10(drawn["log_uniform"])
    assert abs(logs.mean()) < 4 * (2 / np.sqrt(12)) / np.sqrt(n)
    choice = Varied({}, {}, {"v": Distribution("choice", ("a", "b"))}, n, 3)
    share = np.mean([t.values["v"] == "a" for t in choice.trials(range(n))])
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(n)


def test_ranges_of_a_file(tmp_path: Path) -> None:
    text = HEAD + "[grid]\n" + 'noise.gate = { linspace = [3, 5, 3] }\n"system.length" = { logspace = [0.1, 10, 3] }\n'
    varied = load(written(tmp_path, text)).varied
    assert varied.grid["noise.gate"] == (3.0, 4.0, 5.0)
    assert varied.grid["system.length"] == pytest.approx((0.1, 1.0, 10.0), rel=1e-12)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", None, "[campaign] is missing"),
        ('[campaign]\nkind = "filtre"\njob = "pendulum.toml"\n', 2, "no kind of campaign is called 'filtre'"),
        ('[campaign]\nkind = "filter"\n', 1, "'job' is missing"),
        ('[campaign]\nkind = "filter"\njob = "none.toml"\n', 3, "there is no file"),
        (HEAD + "trials = 0\n", 4, "at least 1 per point"),
        (HEAD + "trails = 5\n", 4, "no key is called 'trails'"),
        (HEAD + "[serach]\n", 4, "no table is called 'serach'"),
        (HEAD + "[grid]\nnoise.gaet = [3, 4]\n", 5, "no key is called 'gaet'"),
        (HEAD + "[grid]\nnoise.gate = [3, -4]\n", 5, "noise.gate = -4"),
        (HEAD + "[grid]\nnoise.gate = 3\n", 5, "expected a list of values"),
        (HEAD + '[grid]\nnoise.gate = [3, "x"]\n', 5, "values of one type"),
        (HEAD + "[grid]\ntime.dt = [0.1]\n", 5, "does not vary 'time.dt'"),
        (HEAD + "[grid]\ntruth.masse = [0.1]\n", 5, "truth.masse"),
        (HEAD + "[random]\nnoise.gate = { normal = [3, 1, 2] }\n", 5, "expected two numbers"),
        (HEAD + "[random]\nnoise.gate = { uniform = [3, 1] }\n", 5, "low below high"),
        (HEAD + "[random]\nnoise.gate = { gauss = [3, 1] }\n", 5, "expected a distribution"),
        (HEAD + "[grid]\nnoise.gate = [3]\n[random]\nnoise.gate = { uniform = [3, 4] }\n", 7, "varies in [grid], too"),
        (HEAD + "[together]\nnoise.gate = [3]\nsystem.length = [1, 2]\n", 4, "have one length"),
        (HEAD + "[filter]\nchecks = 0\n", 5, "must be 1 to 1000"),
        (HEAD.replace("filter", "search") + "trials = 3\n", 4, "would begin alike"),
        (HEAD.replace("filter", "design"), 1, "needs something that varies"),
    ],
)
def test_mistakes_name_file_and_line(tmp_path: Path, text: str, line: int | None, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(JobError) as caught:
        load(path)
    assert said in str(caught.value)
    assert caught.value.file == str(path)
    assert line is None or caught.value.line == line
    assert not (tmp_path / "build").exists()


def test_examples_are_read() -> None:
    files = sorted((ROOT / "examples" / "campaigns").glob("*.toml"))
    assert len(files) >= 2
    for file in files:
        assert len(load(file)) > 0


def test_nees_is_that_of_the_library() -> None:
    """L D Lᵀ beside the pseudo-inverse: full rank, and rank 3 of 5 with errors within it; condition up to 1e6."""
    rng = np.random.default_rng(0)
    for rank in (5, 3):
        root = rng.normal(size=(40, 5, rank)) * 10.0 ** rng.uniform(-2, 1, size=(40, 5, 1))
        P = root @ root.swapaxes(1, 2)
        e = np.einsum("nij,nj->ni", root, rng.normal(size=(40, rank)))
        found, degrees = nees_apart(e.copy(), P)
        assert (degrees == rank).all()
        # Errors within P: the value is that of the draws behind them, whatever inverse is taken.
        expected = np.array([np.sum(np.linalg.lstsq(r, v, rcond=None)[0] ** 2) for r, v in zip(root, e, strict=True)])
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        if rank == 5:
            np.testing.assert_allclose(found, nees(e, P), rtol=1e-4)


def test_the_least_change_is_the_pseudo_inverse() -> None:
    rng = np.random.default_rng(1)
    h, J = rng.normal(size=(20, 2)), rng.normal(size=(20, 2, 5))
    expected = np.einsum("nij,nj->ni", np.linalg.pinv(J), h)
    np.testing.assert_allclose(least_change(h, J), expected, rtol=1e-9, atol=1e-12)
