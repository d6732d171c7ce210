"""Work on whole datasets and volumes that adds no rows."""
