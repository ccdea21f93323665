"""SHELL: what is asked beside answers: models, states, orders, the document, the pages."""
