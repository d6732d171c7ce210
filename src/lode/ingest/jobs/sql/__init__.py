"""Queries over the tables of a server: names, changes of rows and tables, scripts."""
