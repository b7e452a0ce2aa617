"""What is sampled: chains, emissions, observations, and the model that ties them."""
