"""Main functions of workers that get stuck. A worker that imports this module alone starts at once."""

import time


def never_ready(connection, task):
    time.sleep(60)


def never_ends(connection, task):
    connection.send(("ready", {}))
    connection.recv()
    time.sleep(60)
