"""Accumulated-Charge, mirrored: our control, in which the sign of the charge's reward is turned round."""
