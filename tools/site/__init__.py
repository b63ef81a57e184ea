"""The documentation as pages that work without a network: ``make site``; docs/site.md says how."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "site"
STAGED = BUILT / "docs"
HTML = BUILT / "html"
