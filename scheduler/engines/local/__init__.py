"""Jobs as processes of this machine."""
