"""As much of BigQuery's REST API as clients need around the Storage APIs."""
