"""Plays a trace of jobs over a pool under a virtual clock: the production policy, and the baselines it is held
against."""
