"""What clients speak: the gRPC services, REST, health, and the ports that they are on."""
