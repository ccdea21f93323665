"""SHELL: llama.cpp's own server, as a child or a binary."""
