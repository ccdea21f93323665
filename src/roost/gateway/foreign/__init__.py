"""VALUE: workers that speak the protocol of system 1, as the gateway uses them."""
