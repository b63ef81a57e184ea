"""The commands of the bench, one file each: read arguments, call the other packages, print."""
