"""PostgreSQL's protocol: messages, authentication, values as text and bytes, and the server."""
