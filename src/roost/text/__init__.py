"""MACHINE: text in motion: decoding, stop strings, SSE, chat templates, estimates. No I/O."""
