"""The HTML pages: status, incidents, a violation, runbooks."""
