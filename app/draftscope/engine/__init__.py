"""The engine: what runs models, in a process of its own, and all that the rest of the program knows of it.

``events`` (records), ``protocol`` (messages) and ``errors`` are the contract; ``client`` is the way in. ``llama_cpp``
and the extension are imported by ``native`` and ``chat_renderer`` only, and both only where an engine runs.
"""
