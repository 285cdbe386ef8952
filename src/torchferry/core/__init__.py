"""What every room shares: findings, messages, configuration, exit codes, errors."""
