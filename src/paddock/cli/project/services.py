"""Services that agents use: the packages that speak to them, their hosts and variables, and what
can stand in for them. A table; nothing is looked up here.
"""

from __future__ import annotations

import msgspec


class KnownService(msgspec.Struct, frozen=True, kw_only=True):
    """One service of the outside, and what a paddock file says about it."""

    name: str
    python: tuple[str, ...] = ()  # distributions, in their canonical spelling
    npm: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()  # as in pydantic-ai-slim[openai]
    hosts: tuple[str, ...] = ()  # the part in capitals differs for each user
    keys: tuple[str, ...] = ()  # variables that its packages read a key from, the usual one first
    settings: tuple[str, ...] = ()  # other variables that its packages read
    placed: str = ""  # where the key stands in a request; empty: wherever the client puts it
    world: str = ""  # the line that puts a stand-in in its place
    is_open: bool = False  # answers without a key as well
    signs: bool = False  # its packages compute signatures with the key, so a placeholder is no use

    @property
    def packages(self) -> tuple[str, ...]:
        return (*self.python, *self.npm)

    @property
    def variables(self) -> tuple[str, ...]:
        return (*self.keys, *self.settings)

    @property
    def is_complete(self) -> bool:
        """Return whether its hosts are the same for everybody."""
        return bool(self.hosts) and all(host == host.lower() for host in self.hosts)


_BEARER = "header:Authorization=Bearer"

SERVICES = (
    KnownService(
        name="Anthropic",
        python=("anthropic", "langchain-anthropic", "llama-index-llms-anthropic",
                "claude-agent-sdk"),
        npm=("@anthropic-ai/sdk", "@anthropic-ai/claude-agent-sdk", "@ai-sdk/anthropic",
             "@langchain/anthropic"),
        extras=("anthropic",),
        hosts=("api.anthropic.com",), keys=("ANTHROPIC_API_KEY",),
        settings=("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
        placed="header:x-api-key",
        world="api.anthropic.com: {service: model, script: scenario.yaml}",
    ),
    KnownService(
        name="OpenAI",
        python=("openai", "openai-agents", "langchain-openai", "llama-index-llms-openai"),
        npm=("openai", "@openai/agents", "@ai-sdk/openai", "@langchain/openai"),
        extras=("openai",),
        hosts=("api.openai.com",), keys=("OPENAI_API_KEY",),
        settings=("OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_MODEL"),
        placed=_BEARER, world="api.openai.com: {service: model, script: scenario.yaml}",
    ),
    KnownService(
        name="Azure OpenAI", npm=("@azure/openai", "@ai-sdk/azure"),
        hosts=("YOURS.openai.azure.com",), keys=("AZURE_OPENAI_API_KEY",),
        settings=("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_DEPLOYMENT", "OPENAI_API_VERSION"),
        placed="header:api-key",
    ),
    KnownService(
        name="Gemini",
        python=("google-genai", "google-generativeai", "google-adk", "langchain-google-genai"),
        npm=("@google/genai", "@google/generative-ai", "@google/adk", "@ai-sdk/google",
             "@langchain/google-genai"),
        extras=("google", "google-genai", "gemini"),
        hosts=("generativelanguage.googleapis.com",), keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        settings=("GOOGLE_CLOUD_PROJECT", "GOOGLE_APPLICATION_CREDENTIALS"),
        placed="header:x-goog-api-key",
    ),
    KnownService(
        name="Bedrock", python=("langchain-aws",),
        npm=("@aws-sdk/client-bedrock-runtime", "@anthropic-ai/bedrock-sdk",
             "@ai-sdk/amazon-bedrock", "@langchain/aws"),
        extras=("bedrock",),
        hosts=("bedrock-runtime.REGION.amazonaws.com",), keys=("AWS_BEARER_TOKEN_BEDROCK",),
        settings=("AWS_REGION", "AWS_DEFAULT_REGION"), placed=_BEARER,
    ),
    KnownService(
        name="Mistral", python=("mistralai", "langchain-mistralai"),
        npm=("@mistralai/mistralai", "@ai-sdk/mistral", "@langchain/mistralai"),
        extras=("mistral", "mistralai"),
        hosts=("api.mistral.ai",), keys=("MISTRAL_API_KEY",), placed=_BEARER,
    ),
    KnownService(
        name="Groq", python=("groq", "langchain-groq"),
        npm=("groq-sdk", "@ai-sdk/groq", "@langchain/groq"), extras=("groq",),
        hosts=("api.groq.com",), keys=("GROQ_API_KEY",), placed=_BEARER,
    ),
    KnownService(
        name="Cohere", python=("cohere", "langchain-cohere"),
        npm=("cohere-ai", "@ai-sdk/cohere", "@langchain/cohere"), extras=("cohere",),
        hosts=("api.cohere.com",), keys=("CO_API_KEY", "COHERE_API_KEY"), placed=_BEARER,
    ),
    KnownService(
        name="Together", python=("together", "langchain-together"),
        npm=("together-ai", "@ai-sdk/togetherai"),
        hosts=("api.together.xyz",), keys=("TOGETHER_API_KEY",), placed=_BEARER,
    ),
    KnownService(
        name="DeepSeek", python=("langchain-deepseek",), npm=("@ai-sdk/deepseek",),
        hosts=("api.deepseek.com",), keys=("DEEPSEEK_API_KEY",), placed=_BEARER,
    ),
    KnownService(
        name="xAI", python=("xai-sdk", "langchain-xai"), npm=("@ai-sdk/xai", "@langchain/xai"),
        hosts=("api.x.ai",), keys=("XAI_API_KEY",), placed=_BEARER,
    ),
    KnownService(
        name="OpenRouter", npm=("@openrouter/ai-sdk-provider",),
        hosts=("openrouter.ai",), keys=("OPENROUTER_API_KEY",), placed=_BEARER,
    ),
    KnownService(
        name="Replicate", python=("replicate",), npm=("replicate", "@ai-sdk/replicate"),
        hosts=("api.replicate.com",), keys=("REPLICATE_API_TOKEN",), placed=_BEARER,
    ),
    KnownService(
        name="Hugging Face", python=("huggingface-hub", "langchain-huggingface"),
        npm=("@huggingface/inference", "@huggingface/hub"), extras=("huggingface",),
        hosts=("huggingface.co", "router.huggingface.co"),
        keys=("HF_TOKEN", "HUGGINGFACEHUB_API_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
        settings=("HF_ENDPOINT",), placed=_BEARER, is_open=True,
    ),
    KnownService(
        name="Tavily", python=("tavily-python", "langchain-tavily"),
        npm=("@tavily/core", "@langchain/tavily"),
        hosts=("api.tavily.com",), keys=("TAVILY_API_KEY",), extras=("tavily",),
    ),
    KnownService(
        name="Exa", python=("exa-py", "langchain-exa"), npm=("exa-js",),
        hosts=("api.exa.ai",), keys=("EXA_API_KEY",), placed="header:x-api-key",
    ),
    KnownService(
        name="Stripe", python=("stripe",), npm=("stripe",),
        hosts=("api.stripe.com",), keys=("STRIPE_API_KEY", "STRIPE_SECRET_KEY", "STRIPE_KEY"),
        placed=_BEARER, world="api.stripe.com: payments",
    ),
    KnownService(
        name="Slack", python=("slack-sdk", "slack-bolt", "slackclient"),
        npm=("@slack/web-api", "@slack/bolt"),
        hosts=("slack.com",), keys=("SLACK_BOT_TOKEN", "SLACK_TOKEN"),
        placed=_BEARER, world="slack.com: chat",
    ),
    KnownService(
        name="GitHub", python=("pygithub", "ghapi", "githubkit"),
        npm=("@octokit/rest", "@octokit/core", "octokit"),
        hosts=("api.github.com",), keys=("GITHUB_TOKEN", "GH_TOKEN"),
        placed=_BEARER, world="api.github.com: forge", is_open=True,
    ),
    KnownService(
        name="Notion", python=("notion-client",), npm=("@notionhq/client",),
        hosts=("api.notion.com",), keys=("NOTION_TOKEN", "NOTION_API_KEY"), placed=_BEARER,
    ),
    KnownService(
        name="Linear", npm=("@linear/sdk",),
        hosts=("api.linear.app",), keys=("LINEAR_API_KEY",), placed="header:Authorization",
    ),
    KnownService(
        name="SendGrid", python=("sendgrid",), npm=("@sendgrid/mail",),
        hosts=("api.sendgrid.com",), keys=("SENDGRID_API_KEY",),
        placed=_BEARER, world="api.sendgrid.com: mail",
    ),
    KnownService(name="Zendesk", python=("zenpy",), npm=("node-zendesk",),
            world="YOURS.zendesk.com: tickets"),
    KnownService(
        name="AWS", python=("boto3", "aioboto3", "s3fs"), npm=("@aws-sdk/client-s3", "aws-sdk"),
        keys=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        settings=("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"),
        signs=True, world='"*.s3.amazonaws.com": storage',
    ),
    KnownService(
        name="PostgreSQL", python=("psycopg", "psycopg2", "psycopg2-binary", "asyncpg"),
        npm=("pg", "postgres"),
        settings=("DATABASE_URL", "PGHOST", "PGUSER", "PGPASSWORD", "PGDATABASE"),
        world='"db.example:5432": {service: postgres}',
    ),
)  # fmt: skip
