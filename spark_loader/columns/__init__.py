"""Values as typed columns: JSON fields, groups of a regex, Avro records."""
