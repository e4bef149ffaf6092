"""Tests of the panels, on a session that is put into its states by hand."""
