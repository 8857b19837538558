"""The payments stand-in: an account at a payments provider, in Stripe's shape."""

from paddock.world.services.payments.service import Payments

__all__ = ["Payments"]
