"""What users write: data tables, regions, times and settings."""
