"""The experiments of the paper: settings and calls only; the algorithms are in chiasma. `make paper` runs them."""
