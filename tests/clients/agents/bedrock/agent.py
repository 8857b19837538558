"""Amazon Bedrock by Amazon's own library: a loop with tools, an event stream, retries."""

import boto3

STOCK = {"lamp": 3, "desk": 0}


def count(item):
    return {"left": STOCK.get(item, 0)}


def order(item, number):
    with open("orders.txt", "a") as file:
        file.write(f"{number} {item}\n")
    return {"ordered": number}


TOOLS = {"count": count, "order": order}
MODEL = "amazon.nova-lite-v1:0"
client = boto3.client("bedrock-runtime")
tools = [
    {"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}} for name in TOOLS
]
messages = [
    {"role": "user", "content": [{"text": "Do we have lamps and desks? Order what is missing."}]}
]
while True:
    answer = client.converse(
        modelId=MODEL,
        system=[{"text": "You keep the stock."}],
        messages=messages,
        toolConfig={"tools": tools},
        inferenceConfig={"temperature": 0},
    )
    message = answer["output"]["message"]
    messages.append(message)
    if answer["stopReason"] != "tool_use":
        break
    results = []
    for block in message["content"]:
        if "toolUse" in block:
            call = block["toolUse"]
            result = TOOLS[call["name"]](**call["input"])
            results.append(
                {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"json": result}]}}
            )
    messages.append({"role": "user", "content": results})
messages.append({"role": "user", "content": [{"text": "Write it as a report."}]})
made = client.converse_stream(modelId=MODEL, messages=messages)
report = "".join(
    event["contentBlockDelta"]["delta"]["text"]
    for event in made["stream"]
    if "contentBlockDelta" in event
)
with open("report.txt", "w") as file:
    file.write(report)
print(report)
