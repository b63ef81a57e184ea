"""``python -m tools.site``: stages and generates pages, and lets MkDocs build them; any warning fails."""

from __future__ import annotations

import os
import subprocess
import sys

from tools.site import HTML, ROOT, controller, links, notebooks, reference, staging


def main() -> int:
    print("pages are generated and staged", flush=True)
    staging.stage(reference.pages())
    controller.stage()
    print("notebooks run", flush=True)
    for name, text in notebooks.pages().items():
        staging.write(name, text)
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--config-file",
        str(ROOT / "mkdocs.yml"),
    ]
    # Material asks for a change of tool on every build; docs/decisions/0020-pages-of-mkdocs.md has the answer.
    done = subprocess.run(command, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=False)
    if done.returncode != 0:
        return done.returncode
    broken = links.broken(HTML)
    for line in broken:
        print(line, file=sys.stderr)
    pages = len(list(HTML.rglob("*.html")))
    print(f"{pages} pages in {HTML.relative_to(ROOT)}, {len(broken)} broken links")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
