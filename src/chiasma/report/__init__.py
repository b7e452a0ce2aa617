"""What people read: pages, charts, figures and tables of a run."""
