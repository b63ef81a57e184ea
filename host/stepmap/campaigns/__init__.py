"""Campaigns: trials by the thousand, from a file, on processes of this computer or on a cluster, into one table.

``stepmap.campaigns.load(path).run()`` is what ``stepmap campaign`` does; docs/campaigns.md describes the file.
"""

from stepmap.campaigns.campaign import Campaign, Finished
from stepmap.campaigns.columns import Column, Row
from stepmap.campaigns.read import load
from stepmap.campaigns.study import Base, Study
from stepmap.campaigns.varied import Trial, Varied

__all__ = ["Base", "Campaign", "Column", "Finished", "Row", "Study", "Trial", "Varied", "load"]
