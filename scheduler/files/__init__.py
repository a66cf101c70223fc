"""Bundles and blobs: files stored by their content."""
