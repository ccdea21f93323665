"""SHELL: replies that are kept, for requests and readers that come again."""
