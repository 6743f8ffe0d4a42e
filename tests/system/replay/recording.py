#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Looks into recordings (protocol/vgp_recording.h) and changes them, for tests of vgpu replay.

recording.py list FILE                     one line an event
recording.py count FILE                    the number of CALL events
recording.py alter FILE NEW CALL WHAT      a copy in which the reply to call number CALL is another:
                                           WHAT result=N | byte=OFFSET: the lowest bit of a byte
                                           that a copy brought
recording.py cut FILE NEW BYTES            the first BYTES
recording.py copy FILE                     the number of the last call that brought bytes to the host
recording.py called FILE NUMBER            the last call with this number of the description
"""
import struct
import sys

CALL, REPLY, NOTIFY, DONE, WRITE, RESULT, END = range(1, 8)
NAMES = {CALL: 'call', REPLY: 'reply', NOTIFY: 'notify', DONE: 'done', WRITE: 'write',
         RESULT: 'result', END: 'end'}


def events(data):
    at = 128
    while at < len(data):
        size, kind, _, serial = struct.unpack_from('<IHHQ', data, at)
        yield at, size, kind, serial
        at += size


def show(data):
    for at, size, kind, serial in events(data):
        text = ''
        body = at + 16
        if kind == CALL:
            rsize, number, _, slot, _, context, thread, _ = struct.unpack_from('<IHHIIQII', data, body)
            text = f'number={number:#x} slot={slot:#x} context={context:#x} thread={thread} ' + \
                data[body + 32:body + min(rsize, 72)].hex()
        elif kind == REPLY:
            result, payload, extra, dead = struct.unpack_from('<iIII', data, body)
            text = f'result={result} payload={payload} data={extra} dead={dead}'
        elif kind in (WRITE, RESULT):
            region, n, offset = struct.unpack_from('<IIQ', data, body)
            text = f'region={region} offset={offset} size={n} ' + data[body + 16:body + 32].hex()
        elif kind == NOTIFY:
            what, n, cookie = struct.unpack_from('<IIQ', data, body)
            text = f'type={what} size={n} cookie={cookie:#x}'
        print(at, NAMES.get(kind, kind), serial, size, text)


def alter(data, serial, what):
    data = bytearray(data)
    key, _, value = what.partition('=')
    for at, _, kind, number in events(data):
        if kind != REPLY or number != serial:
            continue
        body = at + 16
        _, payload, extra, _ = struct.unpack_from('<iIII', data, body)
        if key == 'result':
            struct.pack_into('<i', data, body, int(value))
        else:
            start = body + 16 + ((payload + 7) // 8 * 8 if extra else 8)
            if int(value) >= (extra or payload - 8):
                sys.exit(f'call {serial} has no byte {value}')
            data[start + int(value)] ^= 1
        return data
    sys.exit(f'call {serial} has no reply')


def last(data, wanted, with_bytes):
    calls = {}
    found = 0
    for at, _, kind, serial in events(data):
        if kind == CALL:
            calls[serial] = struct.unpack_from('<H', data, at + 20)[0]
        elif kind == REPLY and calls.get(serial) == wanted:
            _, payload, extra, _ = struct.unpack_from('<iIII', data, at + 16)
            if not with_bytes or extra or payload > 8:
                found = serial
    return found


def main(argv):
    with open(argv[2], 'rb') as f:
        data = f.read()
    if argv[1] == 'list':
        show(data)
    elif argv[1] == 'count':
        print(sum(kind == CALL for _, _, kind, _ in events(data)))
    elif argv[1] in ('copy', 'called'):
        print(last(data, 0x10 if argv[1] == 'copy' else int(argv[3], 0), argv[1] == 'copy'))
    elif argv[1] == 'alter':
        with open(argv[3], 'wb') as f:
            f.write(alter(data, int(argv[4]), argv[5]))
    elif argv[1] == 'cut':
        with open(argv[3], 'wb') as f:
            f.write(data[:int(argv[4])])
    else:
        sys.exit(__doc__)


main(sys.argv)
