"""Tells people and programs of incidents: at least once, in order, by one of the processes that serve the API.

A notifier is a thread for each receiver of the settings (``notify``). Of several processes one leads a receiver. It
looks once a second what the receiver has to be told (`storage.store.repositories.notifications`), and sends it. Each
notification has an id that stays the same however often it is sent: one that was taken, and whose sender died before
it noted that, is sent again.

A heartbeat is the thread of a receiver that is told of nothing: it is called while all is well.
"""
