"""The router: an OpenAI-compatible endpoint that runs each prompt's prefill in a bubble."""
