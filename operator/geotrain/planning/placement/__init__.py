"""Which data centres run which stages: candidates, their scores, and the choice."""
