"""SHELL: what `roost chat` is made of: lines, answers, terminal, gateway."""
