"""Values that were found in recordings, as a file that a job takes."""

from stepmap.jobs.identified.file import KEY, merged, values_in, write

__all__ = ["KEY", "merged", "values_in", "write"]
