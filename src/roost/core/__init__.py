"""VALUE: the vocabulary every room shares: ids, requests, stream events, usage, snapshots, models."""
