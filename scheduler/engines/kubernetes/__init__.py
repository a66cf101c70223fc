"""The engine whose workers are pods of a Kubernetes cluster."""
