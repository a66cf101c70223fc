"""The scheduler's process, which combines all rooms."""
