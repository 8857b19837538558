def discounted(price: int, percent: int) -> int:
    """Return the price in cents after a discount."""
    return price - percent
