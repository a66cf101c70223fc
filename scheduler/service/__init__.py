"""The process that holds all rooms together."""
