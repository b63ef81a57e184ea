"""docs/images/gallery: a moving picture per mechanism; and docs/gallery.md, with the job of each.

``python -m tools.pictures.gallery [NAME …]`` makes all, or those named, from what jobs find and from simulations.
"""

from __future__ import annotations

import io
import re
import sys
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageSequence

import stepmap as sm
from stepmap import jobs
from stepmap.plots.film import film
from stepmap.plots.motion import Motion
from stepmap.simulation import simulate, start_pose
from tools.site import ROOT

IMAGES = ROOT / "docs" / "images" / "gallery"
PAGE = ROOT / "docs" / "gallery.md"
PLACE = re.compile(r"(<!-- gallery -->\n).*?(<!-- end of gallery -->)", re.DOTALL)
WIDTH, PICTURES, QUALITY = 320, 48, 55
ALL_BYTES = 3_000_000


@dataclass(frozen=True)
class Exhibit:
    """A mechanism and what it does: the solution of a job, or a simulation from rest."""

    name: str
    text: str
    job: str = ""  # below examples/
    dt: float = 0.02
    seconds: float = 5.0

    @property
    def command(self) -> str:
        if self.job:
            return f"stepmap optimize examples/{self.job}"
        return f"stepmap simulate {self.name} --dt {self.dt:g} --steps {round(self.seconds / self.dt)}"

    def gif(self) -> bytes:
        return self.solved() if self.job else self.simulated()

    def solved(self) -> bytes:
        job = jobs.load(ROOT / "examples" / self.job)
        solution = job.solve().require()
        animated = getattr(job, "animated", lambda _: {})(solution)  # by jobs that know how to show themselves
        if animated:
            return next(iter(animated.values()))
        trajectory = solution.trajectory
        poses = trajectory.x[:, : job.system.tangent.nq]
        return film(Motion.of(job.system, trajectory.t, poses))

    def simulated(self) -> bytes:
        system = sm.systems.get(self.name)
        pose = start_pose(system, sm.systems.example(self.name), firm=False)
        return film(Motion.simulated(simulate(sm.discretize(system, self.dt), round(self.seconds / self.dt), pose)))


EXHIBITS = (
    Exhibit("suspended_mass", "A robot winds a string; the mass draws an eight.", "suspended_mass.toml"),
    Exhibit("marionette", "A puppet on six strings does what a dancer did.", "imitation/marionette.toml"),
    Exhibit("biped_planar", "A biped with knees walks with the least effort.", "gaits/biped_planar.toml"),
    Exhibit("furuta", "A pendulum on a turning arm swings up and comes back.", "mechanisms/furuta.toml"),
    Exhibit("cart_pendulum", "A cart swings up its pendulum.", "cart_pendulum_swingup.toml"),
    Exhibit("double_pendulum", "Two torques turn two links upright.", "double_pendulum.toml"),
    Exhibit("pendulum", "A motor too weak to lift it swings a pendulum up.", "pendulum_swingup.toml"),
    Exhibit("acrobot", "Driven at the hip alone, it stands up on the bar.", "mechanisms/acrobot.toml"),
    Exhibit("quadrotor", "A flyer carries a hanging load.", "mechanisms/quadrotor.toml"),
    Exhibit("crane", "Three axes lift a load over a corner and set it down.", "mechanisms/crane.toml"),
    Exhibit("puppet_arm", "A play of acts: beckon, wave, rest.", "scripts/wave.toml"),
    Exhibit("helicopter", "Four metres forward, one up, and hover.", "flight/hop.toml"),
    Exhibit("compass", "Two legs walk down a slope without a motor.", "gaits/compass.toml"),
)


def webp(gif: bytes) -> bytes:
    """A moving picture as small as a gallery needs it, at its own speed."""
    with Image.open(io.BytesIO(gif)) as source:
        taken = [(frame.convert("RGB"), frame.info.get("duration", 80)) for frame in ImageSequence.Iterator(source)]
    chosen = np.unique(np.linspace(0, len(taken) - 1, min(PICTURES, len(taken))).astype(int))
    whole = sum(length for _, length in taken)
    size = (WIDTH, round(taken[0][0].height * WIDTH / taken[0][0].width))
    first, *rest = [taken[k][0].resize(size, Image.Resampling.LANCZOS) for k in chosen]
    made = io.BytesIO()
    each = max(20, round(whole / len(chosen)))
    first.save(made, "webp", save_all=True, append_images=rest, duration=each, loop=0, quality=QUALITY, method=6)
    return made.getvalue()


def page() -> str:
    """The list of what is there, in HTML that a repository's page shows as well."""
    lines = ["", '<div class="gallery">']
    for one in EXHIBITS:
        if (IMAGES / f"{one.name}.webp").exists():
            lines += [
                "<figure>",
                f'<img alt="{one.text}" loading="lazy" src="images/gallery/{one.name}.webp">',
                f"<figcaption><b>{one.name}</b><br>{one.text}<br><code>{one.command}</code></figcaption>",
                "</figure>",
            ]
    return "\n".join([*lines, "</div>", "", ""])


def main(names: list[str]) -> int:
    IMAGES.mkdir(parents=True, exist_ok=True)
    failed = 0
    for one in EXHIBITS:
        if names and one.name not in names:
            continue
        try:
            content = webp(one.gif())
        except (sm.StepmapError, ValueError) as error:
            print(f"{one.name}: {error}", file=sys.stderr)
            failed += 1
            continue
        (IMAGES / f"{one.name}.webp").write_bytes(content)
        print(f"{one.name}: {len(content) / 1e3:.0f} kB", flush=True)
    PAGE.write_text(PLACE.sub(lambda found: found[1] + page() + found[2], PAGE.read_text()))
    print(f"{sum(path.stat().st_size for path in IMAGES.iterdir()) / 1e6:.2f} MB of at most {ALL_BYTES / 1e6:g}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
