"""Other programs' command lines, translated into our commands: Kafka's own tools and kcat."""
