"""A load: plan, mappers, publication, progress and result."""
