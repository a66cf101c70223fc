"""Bundles and blobs: files kept by their content."""
