"""The arithmetic behind step maps: equations as graphs, evaluated or compiled. Nothing here knows a mechanism."""
