// A support agent: OpenAI's own library for Node, streamed, with two tools. It knows nothing of Paddock.
import OpenAI from "openai";

const client = new OpenAI();

async function payments(path, fields, key) {
  const headers = { Authorization: `Bearer ${process.env.STRIPE_KEY}` };
  if (key) headers["Idempotency-Key"] = key;
  const options = fields ? { method: "POST", headers, body: new URLSearchParams(fields) } : { headers };
  const answer = await fetch(`https://api.stripe.com/v1/${path}`, options);
  return { status: answer.status, body: await answer.json() };
}

// Send a request again when the service is busy. The key makes sure that two tries are one refund.
async function patiently(path, fields, key) {
  for (const pause of [500, 1000, 2000]) {
    try {
      const answer = await payments(path, fields, key);
      if (answer.status !== 429 && answer.status < 500) return answer;
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // fetch raises it when a connection breaks
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  return payments(path, fields, key);
}

const TOOLS = {
  async find_charges({ email }) {
    const customers = await patiently(`customers?email=${encodeURIComponent(email)}`);
    const charges = await patiently(`charges?customer=${customers.body.data[0].id}`);
    return charges.body.data.map(({ id, amount }) => ({ id, amount }));
  },
  async refund({ charge }, call) {
    const answer = await patiently("refunds", { charge }, call);
    return answer.status === 200 ? { refunded: answer.body.amount } : answer.body;
  },
};
const tools = [
  { name: "find_charges", field: "email", description: "Return what a customer has paid, in cents." },
  { name: "refund", field: "charge", description: "Pay a charge back." },
].map(({ name, field, description }) => ({
  type: "function",
  function: {
    name,
    description,
    parameters: { type: "object", properties: { [field]: { type: "string" } }, required: [field] },
  },
}));

const messages = [{ role: "user", content: "ada@shop.example was charged twice. Refund one charge." }];
for (;;) {
  const stream = client.chat.completions.stream({ model: "gpt-5", messages, tools });
  stream.on("content", (text) => process.stdout.write(text));
  const { message } = (await stream.finalChatCompletion()).choices[0];
  messages.push(message);
  if (message.content) process.stdout.write("\n");
  if (!message.tool_calls?.length) break;
  for (const { id, function: call } of message.tool_calls) {
    const result = await TOOLS[call.name](JSON.parse(call.arguments), id);
    messages.push({ role: "tool", tool_call_id: id, content: JSON.stringify(result) });
  }
}
