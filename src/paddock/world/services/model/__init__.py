"""The scripted model: OpenAI- and Anthropic-shaped answers that a script says, word for word."""

from paddock.world.services.model.service import Model

__all__ = ["Model"]
