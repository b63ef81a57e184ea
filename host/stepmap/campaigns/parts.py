"""Parts of a table: each chunk is a file as soon as it is done, and what is whole of an earlier session counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stepmap.campaigns import table
from stepmap.campaigns.columns import Row
from stepmap.campaigns.dispatch import Chunk
from stepmap.campaigns.folder import Folder
from stepmap.files import write_whole

if TYPE_CHECKING:
    from stepmap.campaigns.campaign import Campaign


@dataclass
class Parts:
    """Chunks that are done, by their trials."""

    folder: Folder
    campaign: Campaign
    form: pa.Schema
    known: dict[Chunk, pa.Table] = field(default_factory=dict)

    @classmethod
    def found(cls, folder: Folder, campaign: Campaign) -> Parts:
        """With those that an earlier session left; a damaged one is made again."""
        about = {name: str(campaign.about[name]) for name in ("campaign", "kind", "job", "digest")}
        made = cls(folder, campaign, table.schema(campaign.varied, campaign.study.columns, about))
        for chunk in campaign.chunks:
            try:
                content = folder.part(chunk).read_bytes()
            except OSError:
                continue
            part = table.decoded(content, made.form)
            if part is not None and part.column("trial").to_pylist() == list(range(*chunk)):
                made.known[chunk] = part
        return made

    @property
    def trials(self) -> int:
        return sum(last - first for first, last in self.known)

    def keep(self, chunk: Chunk, rows: Sequence[Row]) -> None:
        part = table.made(self.form, self.campaign.varied.trials(range(*chunk)), rows)
        write_whole(self.folder.part(chunk), table.encoded(part), links=False)
        self.known[chunk] = part

    def finish(self) -> None:
        """The whole table in the order of its trials, and the report on it."""
        from stepmap.campaigns.page import page

        whole = table.joined([self.known[chunk] for chunk in self.campaign.chunks])
        columns: dict[str, Any] = table.columns_of(whole)
        failed = int((~columns["ok"]).sum())
        self.folder.finish(table.encoded(whole), page(self.campaign, columns), {"failed": failed})
