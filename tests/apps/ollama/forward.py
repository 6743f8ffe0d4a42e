#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A TCP port of this machine that leads to one in a guest, through the standard input and output of `vgpu vm run`.

    forward.py PORT COMMAND...               here; COMMAND is `vgpu vm run ... forward.py --guest ...`
    forward.py --guest GUEST_PORT COMMAND... in the guest: runs COMMAND, whose output goes to standard error

Listens on 127.0.0.1 only. A record is a connection's number, a kind and a length (three 32-bit numbers), then bytes.
Ends when COMMAND has ended, with its status. Each side reads no more of a connection while WINDOW bytes of it are on
their way, so that one slow reader delays nobody else.
"""
import os
import signal
import socket
import struct
import subprocess
import sys
import threading

HEAD = struct.Struct("=III")
OPEN, DATA, END, GONE, TAKEN = range(5)
PIECE = 16384
WINDOW = 8 * PIECE


class Pipe:
    """The two directions between the sides."""

    def __init__(self, source, sink):
        self.source, self.sink = source, sink
        self.lock = threading.Lock()

    def send(self, number, kind, data=b""):
        with self.lock:
            self.sink.write(HEAD.pack(number, kind, len(data)) + data)
            self.sink.flush()

    def records(self):
        while len(head := self.source.read(HEAD.size)) == HEAD.size:
            number, kind, length = HEAD.unpack(head)
            if length > PIECE:
                return
            data = self.source.read(length)
            if len(data) != length:
                return
            yield number, kind, data


class Connection:
    """One connection: a thread that reads the socket, one that writes to it."""

    def __init__(self, pipe, number, sock, forget):
        self.pipe, self.number, self.sock, self.forget = pipe, number, sock, forget
        self.credit = threading.Semaphore(WINDOW // PIECE)
        self.queue = []
        self.wake = threading.Condition()
        self.gone = False
        self.ended = 0 # of the two directions

    def start(self):
        for target in (self.read, self.write):
            threading.Thread(target=target, daemon=True).start()

    def read(self):
        while not self.gone:
            self.credit.acquire()
            try:
                data = self.sock.recv(PIECE)
            except OSError:
                self.pipe.send(self.number, GONE)
                self.close()
                return
            self.pipe.send(self.number, DATA if data else END, data)
            if not data:
                self.end()
                return

    def write(self):
        while True:
            with self.wake:
                self.wake.wait_for(lambda: self.queue or self.gone)
                if self.gone:
                    return
                data = self.queue.pop(0)
            try:
                if not data:
                    self.sock.shutdown(socket.SHUT_WR)
                    self.end()
                    return
                self.sock.sendall(data)
            except OSError:
                self.pipe.send(self.number, GONE)
                self.close()
                return
            self.pipe.send(self.number, TAKEN)

    def take(self, kind, data):
        if kind == TAKEN:
            self.credit.release()
        elif kind == GONE:
            self.close()
        elif kind in (DATA, END):
            with self.wake:
                self.queue.append(data)
                self.wake.notify()

    def end(self):
        """One direction has ended; after the second nothing is left to do."""
        with self.wake:
            self.ended += 1
            if self.ended < 2:
                return
        self.close()

    def close(self):
        with self.wake:
            self.gone = True
            self.wake.notify()
        self.credit.release()
        self.forget(self.number)
        self.sock.close()


def relay(pipe, connections, connect):
    """Hands records to their connections until the other side is gone. connect(number): for OPEN; None: never."""
    for number, kind, data in pipe.records():
        if kind == OPEN and connect:
            connect(number)
        elif number in connections:
            connections[number].take(kind, data)


def guest(port, command):
    pipe = Pipe(sys.stdin.buffer, os.fdopen(os.dup(1), "wb"))
    connections = {}

    def connect(number):
        try:
            sock = socket.create_connection(("127.0.0.1", port))
        except OSError:
            pipe.send(number, GONE)
            return
        connections[number] = Connection(pipe, number, sock, lambda n: connections.pop(n, None))
        connections[number].start()

    threading.Thread(target=relay, args=(pipe, connections, connect), daemon=True).start()
    # Bypasses Python's buffers, so that the command's output appears at once.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def host(port, command):
    listener = socket.create_server(("127.0.0.1", port))
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda which, frame: process.send_signal(which))
    pipe = Pipe(process.stdout, process.stdin)
    connections = {}

    def accept():
        for number in range(1, 1 << 32):
            sock, _ = listener.accept()
            connection = Connection(pipe, number, sock, lambda n: connections.pop(n, None))
            connections[number] = connection
            pipe.send(number, OPEN)
            connection.start()

    threading.Thread(target=accept, daemon=True).start()
    relay(pipe, connections, None)
    status = process.wait()
    return status if status >= 0 else 128 - status


def main(args):
    if len(args) > 2 and args[0] == "--guest" and args[1].isdigit():
        return guest(int(args[1]), args[2:])
    if len(args) > 1 and args[0].isdigit():
        return host(int(args[0]), args[1:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main(sys.argv[1:]))
