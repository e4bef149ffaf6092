"""Tests of ``draftscope.trace``."""
