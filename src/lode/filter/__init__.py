"""Conditions as SQL text: parsed by ``parse_filter`` into an Arrow expression."""
