"""VALUE: what gateways and nodes say to each other, and when they may say it."""
