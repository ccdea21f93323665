"""MACHINE: clients and operators, well or badly behaved, and recorded traffic."""
