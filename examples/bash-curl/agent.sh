#!/usr/bin/env bash
# A release agent in bash: curl asks the model, jq reads its answers, git does the work.
# It knows nothing of Paddock.
set -euo pipefail

tools='[
  {"type": "function", "function": {"name": "commit", "parameters": {"type": "object",
    "properties": {"message": {"type": "string"}}, "required": ["message"]}}},
  {"type": "function", "function": {"name": "push", "parameters": {"type": "object", "properties": {}}}},
  {"type": "function", "function": {"name": "open_issue", "parameters": {"type": "object",
    "properties": {"title": {"type": "string"}, "body": {"type": "string"}}, "required": ["title", "body"]}}}
]'

ask_model() { # ask_model MESSAGES: the message that the model answers
    jq -n --argjson messages "$1" --argjson tools "$tools" \
        '{model: "gpt-5", $messages, $tools}' |
        curl -sS --fail-with-body https://api.openai.com/v1/chat/completions \
            -H "Authorization: Bearer $OPENAI_API_KEY" -H "Content-Type: application/json" -d @- |
        jq '.choices[0].message'
}

use_tool() { # use_tool NAME ARGUMENTS: what the tool prints, also when it fails
    case $1 in
        commit)
            git init -q --template= -b main && git add notes.md
            git -c user.name=agent -c user.email=agent@example.com \
                commit -q -m "$(jq -r .message <<<"$2")" && git log -1 --format=%s
            ;;
        push) git push https://github.com/acme/site main ;;
        open_issue)
            curl -sS https://api.github.com/repos/acme/site/issues \
                -H "Authorization: Bearer $GITHUB_TOKEN" --json "$2" | jq -c '{number, title, error}'
            ;;
    esac 2>&1 || true
}

messages='[{"role": "user", "content": "Release the notes in notes.md."}]'
while true; do
    answer=$(ask_model "$messages")
    jq -r '.content // empty' <<<"$answer"
    messages=$(jq --argjson answer "$answer" '. + [$answer]' <<<"$messages")
    while read -r call; do
        [[ $call ]] || exit 0 # The model wants nothing more.
        result=$(use_tool "$(jq -r .function.name <<<"$call")" "$(jq -r .function.arguments <<<"$call")")
        messages=$(jq --argjson call "$call" --arg result "$result" \
            '. + [{role: "tool", tool_call_id: $call.id, content: $result}]' <<<"$messages")
    done <<<"$(jq -c '.tool_calls // [] | .[]' <<<"$answer")"
done
