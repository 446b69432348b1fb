"""Video-DPRP and obfuscations: actions against attributes."""
