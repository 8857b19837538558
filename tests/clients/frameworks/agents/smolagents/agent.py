"""smolagents over OpenAI's chat completions: tools in threads."""

import smolagents
import work

model = smolagents.OpenAIModel("gpt-4.1", api_key="none")
functions = [work.take_ticket, work.find_charge, work.refund, work.write_note]
agent = smolagents.ToolCallingAgent([smolagents.tool(one) for one in functions], model)
print(agent.run(work.TASK))
