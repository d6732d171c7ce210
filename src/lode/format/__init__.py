"""The objects on storage: manifests, ids and paths. Pure values, no I/O."""
