"""A controller as a library of C for firmware of others: ``stepmap generate JOB --library DIR``; docs/library.md."""

from stepmap_codegen.library.contents import Library

__all__ = ["Library"]
