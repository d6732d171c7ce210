"""The catalog of datasets and tables: their definitions, as objects on the lake's store."""
