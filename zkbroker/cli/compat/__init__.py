"""Other people's command lines, said to our commands: Kafka's own tools and kcat."""
