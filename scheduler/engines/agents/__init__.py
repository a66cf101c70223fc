"""For engines whose workers run outside the scheduler's machine: what agents request and what they upload."""
