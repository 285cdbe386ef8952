"""Races: between streams, and between a stream and the host. Looked for where a rehearsal is asked to."""
