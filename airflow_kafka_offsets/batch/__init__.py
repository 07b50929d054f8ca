"""The engine: observe, decide, carry out. Every use case is an order; one loop serves all of them."""
