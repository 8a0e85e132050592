"""Fetching for every consumer: requests to leaders, answers to chunks, chunks to messages."""
