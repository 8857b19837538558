#!/bin/sh
# An agent that is no Python at all.
set -eu
ask() {
    curl -s https://api.anthropic.com/v1/messages -H 'content-type: application/json' \
        -H 'x-api-key: k' -H 'anthropic-version: 2023-06-01' \
        -d "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"$1\"}]}"
}
first=$(ask "from a shell")
echo "$first" | wc -c >count.txt
ask "it had $(cat count.txt) bytes" >/dev/null
curl -s -o /dev/null -w '%{http_code}\n' https://nowhere.example/ || echo "no way out"
