// OpenAI's own library for Node: streamed, two tools at once, and keys that chance makes.
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import OpenAI from "openai";

const TASK = "Refund the newest charge of ada@shop.example, as her ticket asks.";
const client = new OpenAI();

async function payments(path, fields) {
  const headers = { Authorization: "Bearer sk_test_1" };
  if (fields) headers["Idempotency-Key"] = randomUUID();
  const body = fields && new URLSearchParams(fields);
  const answer = await fetch("https://api.stripe.com" + path, { method: fields ? "POST" : "GET", headers, body });
  return { code: answer.status, ...(await answer.json()) };
}

const TOOLS = {
  async take_ticket({ number }) {
    const command = `grep -n '' tickets/${number}.txt | tee taken.txt`;
    return (await promisify(execFile)("sh", ["-c", command])).stdout;
  },
  async find_charge({ email }) {
    const customers = await payments("/v1/customers?" + new URLSearchParams({ email }));
    const charges = await payments(`/v1/charges?limit=1&customer=${customers.data[0].id}`);
    return JSON.stringify({ id: charges.data[0].id, amount: charges.data[0].amount });
  },
  async refund({ charge }) {
    const { code, status, amount, id } = await payments("/v1/refunds", { charge });
    return JSON.stringify(code === 200 ? { status, amount, id } : { status: "refused", code });
  },
  async write_note({ text }) {
    await mkdir("notes", { recursive: true });
    await writeFile("notes/ada.md", text + "\n");
    return `${text.length + 1} bytes`;
  },
};
const tools = Object.keys(TOOLS).map((name) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties: {} } },
}));

const messages = [{ role: "user", content: TASK }];
for (;;) {
  const stream = client.chat.completions.stream({ model: "gpt-4.1", messages, tools });
  const { message } = (await stream.finalChatCompletion()).choices[0];
  messages.push(message);
  if (!message.tool_calls?.length) break;
  const results = message.tool_calls.map(async ({ id, function: { name, arguments: given } }) => ({
    role: "tool",
    tool_call_id: id,
    content: await TOOLS[name](JSON.parse(given)),
  }));
  messages.push(...(await Promise.all(results)));
}
console.log(messages.at(-1).content);
