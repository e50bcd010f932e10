"""Threads that stop, pauses that grow, and the ports through which parts hand on facts."""
