"""DECIDER: what a request says: its headers, its body, and the object `roost` in that."""
