#!/bin/bash
# An agent of bash, curl, jq and git: the model asks for commands, several at once, and is told what
# they printed.
set -euo pipefail

jq -n --arg task "$1" '[{role: "user", content: $task}]' > messages.json
while true; do
    jq '{model: "gpt-4.1", messages: ., tools: [{type: "function", function: {name: "shell"}}]}' messages.json |
        curl -sS --fail --retry 3 --retry-delay 1 https://api.openai.com/v1/chat/completions \
            -H "Authorization: Bearer $OPENAI_API_KEY" -H "Content-Type: application/json" -d @- |
        jq '.choices[0].message' > answer.json
    calls=$(jq -r '.tool_calls[]? | .id + "\t" + (.function.arguments | fromjson | .command)' answer.json)
    [ -n "$calls" ] || break
    while IFS=$'\t' read -r id command; do
        { bash -c "$command" 2>&1 || echo "exit $?"; } > "$id.txt" &
    done <<< "$calls"
    wait
    jq --slurpfile answer answer.json '. + $answer + [$answer[0].tool_calls[].id | {role: "tool", tool_call_id: .,
        content: input}]' messages.json <(cut -f 1 <<< "$calls" | while read -r id; do jq -Rs . "$id.txt"; done) > more.json
    mv more.json messages.json
done
jq -r .content answer.json | tee report.txt
