"""Tests of ``draftscope.trace.export``."""
