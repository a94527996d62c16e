"""Key-to-Door (§5.3, App. A.3): control with a reward per state component, among distractors."""
