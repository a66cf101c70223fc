"""Submissions: job files, sweeps, notebooks, and the formats of amounts."""
