"""SHELL: HTTP/1.1 to servers that compute: a request, its connection, where its answer ends."""
