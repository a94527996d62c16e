"""Blackjack: compiled dynamics."""
