"""Services that agents use: the packages that speak to them, their hosts and keys, and what can
stand in for them. A table; nothing is looked up here.
"""

from __future__ import annotations

from paddock.model.values import dataclass


@dataclass(frozen=True, slots=True)
class Service:
    """One service of the outside, and what a paddock file says about it."""

    name: str
    packages: tuple[str, ...]  # of Python and of npm, in lower case
    hosts: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()  # variables that its packages read a key from
    placed: str = ""  # where the key stands in a request
    world: str = ""  # the line that puts a stand-in in its place


_BEARER = "header:Authorization=Bearer"

SERVICES = (
    Service(
        "Anthropic",
        ("anthropic", "langchain-anthropic", "claude-agent-sdk", "@anthropic-ai/sdk",
         "@ai-sdk/anthropic", "@langchain/anthropic"),
        ("api.anthropic.com",), ("ANTHROPIC_API_KEY",), "header:x-api-key",
        "api.anthropic.com: {service: model, script: scenario.yaml}",
    ),
    Service(
        "OpenAI",
        ("openai", "openai-agents", "langchain-openai", "@ai-sdk/openai", "@langchain/openai",
         "@openai/agents"),
        ("api.openai.com",), ("OPENAI_API_KEY",), _BEARER,
        "api.openai.com: {service: model, script: scenario.yaml}",
    ),
    Service(
        "Gemini",
        ("google-genai", "google-generativeai", "langchain-google-genai", "@google/genai",
         "@ai-sdk/google"),
        ("generativelanguage.googleapis.com",), ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "header:x-goog-api-key",
    ),
    Service("Mistral", ("mistralai", "langchain-mistralai", "@mistralai/mistralai"),
            ("api.mistral.ai",), ("MISTRAL_API_KEY",), _BEARER),
    Service("Groq", ("groq", "langchain-groq", "groq-sdk"), ("api.groq.com",), ("GROQ_API_KEY",),
            _BEARER),
    Service("Cohere", ("cohere", "langchain-cohere", "cohere-ai"), ("api.cohere.com",),
            ("CO_API_KEY", "COHERE_API_KEY"), _BEARER),
    Service("Stripe", ("stripe",), ("api.stripe.com",),
            ("STRIPE_API_KEY", "STRIPE_SECRET_KEY", "STRIPE_KEY"), _BEARER,
            "api.stripe.com: payments"),
    Service("Slack", ("slack-sdk", "slack-bolt", "slackclient", "@slack/web-api", "@slack/bolt"),
            ("slack.com",), ("SLACK_BOT_TOKEN", "SLACK_TOKEN"), _BEARER, "slack.com: chat"),
    Service("GitHub", ("pygithub", "ghapi", "@octokit/rest", "@octokit/core", "octokit"),
            ("api.github.com",), ("GITHUB_TOKEN", "GH_TOKEN"), _BEARER, "api.github.com: forge"),
    Service("SendGrid", ("sendgrid", "@sendgrid/mail"), ("api.sendgrid.com",),
            ("SENDGRID_API_KEY",), _BEARER, "api.sendgrid.com: mail"),
    Service("Zendesk", ("zenpy", "node-zendesk"), world="YOURS.zendesk.com: tickets"),
    Service("S3", ("boto3", "aioboto3", "s3fs", "@aws-sdk/client-s3", "aws-sdk"),
            world='"*.s3.amazonaws.com": storage'),
    Service("PostgreSQL", ("psycopg", "psycopg2", "psycopg2-binary", "asyncpg", "pg", "postgres"),
            world='"db.example:5432": {service: postgres}'),
)  # fmt: skip
