"""Tiny models that the tests make for themselves: one of every MTP family, and files that must be refused."""
