# SPDX-License-Identifier: MIT
# Part of vgpu_test.sh: the columns of `vgpu smi --host` at the edges of their forms. A row for each client: the milliseconds of
# its processor time and its number of calls, and what the table shows for them.
cat > "$work/columns" <<'END'
0 0 0.0s 0
9 9 0.0s 9
90 10 0.0s 10
99 11 0.0s 11
100 12 0.1s 12
1010 99999 1.0s 99999
1950 100000 1.9s 100000
12345 1234567 12.3s 1234567
98765432 99999999 98765.4s 99999999
99999999 100000000 99999.9s 100M
100000000 100999999 100000s 100M
123456789 101000000 123456s 101M
999999999 9876543210 999999s 9876M
END
cat > "$work/columns.py" <<'END'
import os, socket, sys
rows = [line.split() for line in open(sys.argv[1])]
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(f"\0vgpu-backend.status.{os.getpid()}")
s.listen(8)
print(os.getpid(), flush=True)
while True:
    c, _ = s.accept()
    text = f"backend {os.getpid()} /run/{os.getpid()}.sock\nlimit weight 301\nlimit max-clients 99\nvm now-ms 1000 soft 0\ndevice D\n"
    for i, (ms, calls, _, _) in enumerate(rows):
        text += f"client {1000 + i} {2000 + i} {(i + 1) * 1048576} column{i}\nuse {1000 + i} calls {calls} cpu-ms {ms}\n"
    try:
        c.send(text.encode())
    except OSError:
        pass  # of another program that looks at every backend, and has left
    c.close()
END
mkfifo "$work/columns.fifo"
/usr/bin/python3 "$work/columns.py" "$work/columns" > "$work/columns.fifo" &
columns=$!
read -r pid_of_columns < "$work/columns.fifo"
"$vgpu" smi --host > "$work/columns.out"
same "smi --host: each column at the edges of its forms" \
    "$(awk '{ printf "| column%d %d %d N/A %dMiB %s %s - - |\n", NR - 1, 1999 + NR, 999 + NR, NR, $4, $3 }' "$work/columns")" \
    "$(sed -n '/^|  column[0-9]/{s/  */ /g;p}' "$work/columns.out")"
same "smi --host: no row is wider than the table" "" "$(awk 'length($0) > 80' "$work/columns.out")"
kill $columns
wait $columns 2> /dev/null
