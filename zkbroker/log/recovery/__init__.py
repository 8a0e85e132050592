"""Opening a log after a stop or a crash: what is valid is kept, what is not is put aside."""
