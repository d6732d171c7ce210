"""Jobs: work that a client starts with one request and asks about with others."""
