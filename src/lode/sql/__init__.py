"""SQL on DuckDB over datasets, in BigQuery's dialect."""
