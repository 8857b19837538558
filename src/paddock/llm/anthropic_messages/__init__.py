"""Anthropic's messages; also spoken by Vertex and by Bedrock's `invoke`."""
