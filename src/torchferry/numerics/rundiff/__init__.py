"""Two records of a run, laid side by side: what differs in data, weights and settings, and where numbers part first."""
