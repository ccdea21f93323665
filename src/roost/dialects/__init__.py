"""DECIDER: HTTP APIs as translations: JSON to requests, events to JSON and SSE, failures to bodies.

One family of modules per API. None opens a socket, waits or decides where a request goes.
"""
