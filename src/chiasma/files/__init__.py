"""Files that users read and write: data tables, settings, the directory of a run and its report."""
