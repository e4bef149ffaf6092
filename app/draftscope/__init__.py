"""Draftscope: an inspector and local runner for MTP speculative decoding in llama.cpp."""

__version__ = "0.1.0"
