"""The panels of the window: one module a panel, none imports another; what they share stands beside them.

Panels: ``output``, ``acceptance``, ``timeline``, ``engine``, ``log``. Each reads the session and never changes it, but
for the shared selection, time range and crosshair in ``session.view``; ``output`` passes on to ``session.chats`` what
is said in its cards.
"""
