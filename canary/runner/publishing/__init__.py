"""The way of a fact: inbox, ledger, judge, store, probe log."""
