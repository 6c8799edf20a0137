"""What stands in the system relations: functions from a catalog's image to rows."""
