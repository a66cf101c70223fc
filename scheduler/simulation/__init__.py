"""Simulates a trace of jobs on a pool with a virtual clock: the production policy, and baselines to compare it with."""
