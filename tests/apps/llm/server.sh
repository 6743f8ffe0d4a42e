#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Starts llama-server and queries it by HTTP over the loopback interface.
#
#   server.sh LLAMA_SERVER MODEL
#
# Prints the answer's text. Exit status 0: the server answered. The server's log is server.log.

set -u
port=$((20000 + $$ % 10000))

# ask REQUEST-LINE [BODY]: sends a request and prints the whole response.
ask()
{
    local body=${2:-}

    exec 5<> "/dev/tcp/127.0.0.1/$port" || return 1
    printf '%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' \
        "$1" ${#body} "$body" >&5
    timeout 120 cat <&5
    exec 5>&-
}

"$1" -m "$2" -ngl 99 -fa on -c 512 -np 1 --host 127.0.0.1 --port $port --no-warmup > server.log 2>&1 &
server=$!
for _ in $(seq 400); do
    kill -0 $server 2> /dev/null || { echo "the server ended: $(tail -n 3 server.log)"; exit 1; }
    (ask "GET /health") 2> /dev/null | grep -q '"ok"' && break
    sleep 0.3
done
answer=$(ask "POST /completion" \
    '{"prompt":"The host reads the call","n_predict":12,"temperature":0,"cache_prompt":false}')
kill $server
wait $server
echo "$answer" | sed -n 's/.*"content":"\([^"]*\)".*"tokens_predicted":\([0-9]*\).*/\2 tokens:\1/p'
grep -q 'offloaded [0-9]*/[0-9]* layers to GPU' server.log && echo "on the GPU: $(grep -o 'offloaded [0-9/]* layers' server.log)"
echo "$answer" | grep -q '"tokens_predicted":12'
