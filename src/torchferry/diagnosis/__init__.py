"""Why a run failed, from its logs: what failed first, where, what it means, and what only follows from it."""
