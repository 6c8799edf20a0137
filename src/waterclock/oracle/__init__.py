"""Which times statements happen at."""
