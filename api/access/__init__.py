"""Access: tokens, OIDC, security headers, and the record of actions."""
