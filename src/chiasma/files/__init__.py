"""Files of users: tables, settings, the directory of a run and its report."""
