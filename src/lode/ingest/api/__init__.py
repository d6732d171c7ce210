"""The protocols of the server: the gRPC services, REST, health checks, and their ports."""
