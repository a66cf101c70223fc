"""Custom resources of a cluster: `TrainJob` becomes a job, and `Project` a project of the pool."""
