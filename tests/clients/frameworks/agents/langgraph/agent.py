"""LangGraph with LangChain's model for OpenAI: tools in threads, and a checkpointer."""

import work
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

TOOLS = [work.take_ticket, work.find_charge, work.refund, work.write_note]
model = ChatOpenAI(model="gpt-4.1").bind_tools(TOOLS)


def think(state):
    return {"messages": [model.invoke(state["messages"])]}


graph = StateGraph(MessagesState)
graph.add_node("think", think)
graph.add_node("tools", ToolNode(TOOLS))
graph.add_edge(START, "think")
graph.add_conditional_edges("think", tools_condition)
graph.add_edge("tools", "think")
agent = graph.compile(checkpointer=InMemorySaver())

question = {"messages": [("system", "You help customers."), ("user", work.TASK)]}
thread = {"configurable": {"thread_id": "7"}}
for kind, part in agent.stream(question, thread, stream_mode=["updates", "messages"]):
    if kind == "updates":
        for node, update in part.items():
            print(node, [message.type for message in update["messages"]])
print(agent.get_state(thread).values["messages"][-1].content)
