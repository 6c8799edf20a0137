"""What exists: databases, schemas, relations, roles, and who may do what with them."""
