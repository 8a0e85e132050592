"""Idempotent and transactional producers, as a log knows them."""
