"""The record of a run, without Qt and without an engine: store, window queries, figures, files and exports.

Reads what ``draftscope.engine.events`` defines and nothing else of the engine, so that a saved trace opens where no
engine is installed.
"""
