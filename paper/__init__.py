"""The paper's experiments: settings and calls only; the algorithms are in the other packages."""
