"""Files that load jobs read: each format becomes batches in a table's schema, in bounded memory."""
