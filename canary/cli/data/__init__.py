"""Commands over probe logs, dumps and histories."""
