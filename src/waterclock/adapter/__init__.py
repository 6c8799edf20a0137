"""Sessions: who is connected, what they asked for, and at which time it is answered."""
