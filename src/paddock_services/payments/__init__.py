"""The payments stand-in: an account at a payments provider, in Stripe's shape."""

from paddock_services.payments.service import Payments

__all__ = ["Payments"]
