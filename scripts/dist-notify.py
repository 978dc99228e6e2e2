"""A service manager's socket: appends each message to a file. dist-notify.py SOCKET FILE"""

import os
import socket
import sys

path, log = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(path)
os.chmod(path, 0o666)
while True:
    message = listener.recv(4096)
    with open(log, "ab") as file:
        file.write(message + b"\n")
