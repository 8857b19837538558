"""OpenAI's chat completions, which most other vendors and gateways speak too."""
