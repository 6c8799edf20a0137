"""Values as clients write and read them: text and binary, whole Arrow columns at a time."""
