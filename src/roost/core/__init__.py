"""VALUE: the vocabulary every room shares: ids, requests, events, usage, snapshots, models."""
