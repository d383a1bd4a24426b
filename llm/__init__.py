"""A model and its decorators: providers, dialects, classifier, breaker, fallback, stream guard."""
