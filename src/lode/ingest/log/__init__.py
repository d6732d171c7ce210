"""The durable log of one write stream: its staged rows and its state."""
